package agree

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// Communicator is what the records tell of a communicator. A zero time is unknown.
type Communicator struct {
	Key     string    `json:"-"` // of its records: CommKey's, and a number where the id was used before
	ID      uint64    `json:"-"`
	Ranks   int       `json:"ranks"`
	Start   VersionID `json:"-"`
	Started time.Time `json:"-"`
	Slots   []Slot    `json:"-"` // those that are claimed, in order
	Changes []Change  `json:"-"` // by K, from 1 on
	Newest  time.Time `json:"-"`
	Keys    []Key     `json:"-"`                // of all its records
	Faults  []string  `json:"faults,omitempty"` // records that cannot be read
	Note    []byte    `json:"-"`                // see Member.PublishStatus; nil: none
}

// Slot is one rank of a communicator.
type Slot struct {
	Index    int    `json:"slot"`
	Identity string `json:"-"`    // Config.Identity of its owner
	Name     string `json:"-"`    // Config.Name of its owner
	Left     bool   `json:"left"` // the owner has closed the communicator
}

// Change is a change that was proposed, or, without a Proposal, one that a freeze prevents.
type Change struct {
	K        uint64    `json:"number"`
	Proposal *Proposal `json:"proposal,omitempty"`
	Proposed time.Time `json:"proposed,omitzero"`
	// Acks has the slots of the ranks that have promised. It is complete only while the change is
	// undecided.
	Acks     map[int]bool `json:"-"`
	Decision *Decision    `json:"decision,omitempty"` // nil: undecided
	Decided  time.Time    `json:"decided,omitzero"`
}

// InForce returns the version that was committed last, and when. A rank decides calls by it from the barrier
// on.
func (c *Communicator) InForce() (v VersionID, since time.Time) {
	v, since = c.Start, c.Started
	for _, change := range c.Changes {
		if d := change.Decision; d != nil && d.Commit && change.Proposal != nil {
			v, since = change.Proposal.VersionID, change.Decided
		}
	}
	return v, since
}

// Versions returns all versions that the communicator's records name.
func (c *Communicator) Versions() (all []VersionID) {
	if c.Start.Content != "" {
		all = append(all, c.Start)
	}
	for _, change := range c.Changes {
		if change.Proposal != nil {
			all = append(all, change.Proposal.VersionID)
		}
	}
	return all
}

// Frozen returns the change that prevents all later ones, or nil.
func (c *Communicator) Frozen() *Change {
	for i, change := range c.Changes {
		if d := change.Decision; d != nil && d.Frozen() {
			return &c.Changes[i]
		}
	}
	return nil
}

// Name returns what the program calls the communicator on all ranks; "" if it calls it nothing, or not the same.
func (c *Communicator) Name() (name string) {
	for i, s := range c.Slots {
		if i > 0 && s.Name != name {
			return ""
		}
		name = s.Name
	}
	if len(c.Slots) < c.Ranks {
		return ""
	}
	return name
}

// An Inspector reads a store repeatedly. Each time it reads only the new records. One goroutine may use it at
// a time.
type Inspector struct {
	records Records
	cached  map[string]cachedRecord
}

type cachedRecord struct {
	made  time.Time
	value []byte
}

// Inspect returns an Inspector of a store, which writes nothing.
func Inspect(r Records) *Inspector { return &Inspector{r, map[string]cachedRecord{}} }

// Communicators returns all communicators of which the store has records, in the order of their ids and lives. Members
// go on meanwhile, so the result may mix several moments. But each decision in it was really made.
func (in *Inspector) Communicators(ctx context.Context) ([]Communicator, error) {
	made := map[string]time.Time{}
	// A proposal is put before its decision, and decisions are what must not be
	// missed: so they are listed last.
	for _, dir := range []string{string(kindOpen), string(kindProposal), CommsDir} {
		found, err := in.records.Made(ctx, dir)
		if err != nil {
			return nil, err
		}
		maps.Copy(made, found)
	}
	maps.DeleteFunc(in.cached, func(key string, k cachedRecord) bool {
		at, there := made[key]
		return !there || !at.Equal(k.made)
	})
	faults, err := in.read(ctx, made)
	if err != nil {
		return nil, err
	}
	all := map[string]*reading{}
	for _, key := range slices.Sorted(maps.Keys(made)) {
		k, ok := ParseKey(key)
		if !ok {
			continue
		}
		c := all[k.Comm]
		if c == nil {
			c = &reading{slots: map[uint64]*Slot{}, changes: map[uint64]*Change{}}
			c.Key = k.Comm
			if c.ID, c.Ranks, ok = parseCommKey(k.Comm); !ok {
				continue
			}
			all[k.Comm] = c
		}
		c.Keys = append(c.Keys, k)
		if made[key].After(c.Newest) {
			c.Newest = made[key]
		}
		err := faults[key]
		if err == nil {
			err = c.add(k, in.cached[key].value, made[key])
		}
		if err != nil {
			c.Faults = append(c.Faults, fmt.Sprintf("%s: %v", key, err))
		}
	}
	list := make([]Communicator, 0, len(all))
	for _, c := range all {
		list = append(list, c.sorted())
	}
	slices.SortFunc(list, func(a, b Communicator) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Ranks, b.Ranks), cmp.Compare(len(a.Key), len(b.Key)),
			cmp.Compare(a.Key, b.Key))
	})
	return list, nil
}

// Content returns the content of a version.
func (in *Inspector) Content(ctx context.Context, v VersionID) ([]byte, error) {
	content, ok := readContent(ctx, in.records.Get, v)
	if !ok {
		return nil, fmt.Errorf("version %.12s is not in the store", v.EffectDigest)
	}
	return content, nil
}

// readers is how many records are read at the same time.
const readers = 16

// read reads the records that are not cached and have a value. It goes on after one that
// cannot be read.
func (in *Inspector) read(ctx context.Context, made map[string]time.Time) (faults map[string]error, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	faults = map[string]error{}
	turn := make(chan struct{}, readers)
	var wanted []string
	for key := range made {
		_, known := in.cached[key]
		if k, ok := ParseKey(key); ok && k.hasValue() && !known {
			wanted = append(wanted, key)
		}
	}
	for _, key := range wanted {
		turn <- struct{}{}
		all.Go(func() {
			defer func() { <-turn }()
			value, found, err := in.records.Get(ctx, key)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				faults[key] = err
			case found:
				in.cached[key] = cachedRecord{made[key], value}
			default: // removed since
				delete(made, key)
			}
		})
	}
	all.Wait()
	return faults, ctx.Err()
}

// reading is a communicator whose records are being read.
type reading struct {
	Communicator
	noted   uint64 // the number of Note
	slots   map[uint64]*Slot
	changes map[uint64]*Change
}

func (r *reading) slot(index uint64) *Slot {
	if r.slots[index] == nil {
		r.slots[index] = &Slot{Index: int(index)}
	}
	return r.slots[index]
}

func (r *reading) change(k uint64) *Change {
	if r.changes[k] == nil {
		r.changes[k] = &Change{K: k, Acks: map[int]bool{}}
	}
	return r.changes[k]
}

// sorted ends the reading.
func (r *reading) sorted() Communicator {
	c := r.Communicator
	for _, index := range slices.Sorted(maps.Keys(r.slots)) {
		// Where the slot record is gone, the record of leaving alone makes no slot.
		if s := r.slots[index]; s.Identity != "" {
			c.Slots = append(c.Slots, *s)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(r.changes)) {
		// A change with nothing but an ack is a proposal that is not seen yet.
		if x := r.changes[k]; x.Proposal != nil || x.Decision != nil {
			c.Changes = append(c.Changes, *x)
		}
	}
	return c
}

// add adds what one record tells.
func (r *reading) add(k Key, value []byte, made time.Time) (err error) {
	switch k.kind {
	case kindInit:
		r.Start, err = decode[VersionID](value)
		r.Started = made
	case kindSlot:
		s := r.slot(k.number)
		s.Identity, s.Name = parseSlot(value)
	case kindLeft:
		r.slot(k.number).Left = true
	case kindProposal:
		p, err := decode[Proposal](value)
		if err != nil {
			return err
		}
		change := r.change(k.number)
		switch {
		case p.Freeze:
			change.Decision, change.Decided = &Decision{Abort: Duplicate, By: -1}, made
		case p.Content != "":
			change.Proposal, change.Proposed = &p, made
		}
	case kindDecision:
		d, ok := k.decision()
		if !ok {
			return errors.New("this is no decision")
		}
		change := r.change(k.number)
		change.Decision, change.Decided = &d, made
	case kindDetail:
		if d := r.change(k.number).Decision; d != nil { // it comes before its detail, in order
			d.Detail = string(value)
		}
	case kindNote:
		if k.number >= r.noted {
			r.noted, r.Note = k.number, value
		}
	case kindAck:
		slots, _, ok := k.report()
		if !ok {
			return errors.New("this is no acknowledgement")
		}
		for _, slot := range slots {
			r.change(k.number).Acks[slot] = true
		}
	}
	return err
}
