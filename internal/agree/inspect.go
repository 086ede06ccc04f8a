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

// Records is a store as seen by a tool that is no rank.
type Records interface {
	// Made returns the keys of all records below dir and when each was made. The time is zero if the store
	// does not know it.
	Made(ctx context.Context, dir string) (map[string]time.Time, error)
	getter
}

// getter is the part that Store and Records share.
type getter interface {
	// Get is that of Store.
	Get(ctx context.Context, key string) (value []byte, found bool, err error)
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

// Communicators returns all communicators of which the store has records, in the order of their ids. Members
// go on meanwhile, so the result may mix several moments. But each decision in it was really made.
func (in *Inspector) Communicators(ctx context.Context) ([]Communicator, error) {
	made := map[string]time.Time{}
	// A proposal is put before its decision, and decisions are what must not be
	// missed: so they are listed last.
	for _, dir := range []string{undecided, proposals, "c"} {
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
	all := map[keys]*reading{}
	for _, key := range slices.Sorted(maps.Keys(made)) {
		k, ok := parseKey(key)
		if !ok {
			continue
		}
		c := all[k.comm]
		if c == nil {
			c = &reading{slotAt: map[int]int{}, changeAt: map[uint64]int{}}
			c.Key = string(k.comm)
			if c.ID, c.Ranks, ok = parseCommKey(string(k.comm)); !ok {
				continue
			}
			all[k.comm] = c
		}
		c.Keys = append(c.Keys, key)
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
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Ranks, b.Ranks))
	})
	return list, nil
}

// Content returns the content of a version.
func (in *Inspector) Content(ctx context.Context, v VersionName) ([]byte, error) {
	content, ok := readContent(ctx, in.records, v)
	if !ok {
		return nil, fmt.Errorf("version %.12s is not in the store", v.Meaning)
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
		if k, ok := parseKey(key); ok && k.hasValue() && !known {
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
	noted    uint64         // the number of Note
	slotAt   map[int]int    // places in Slots by index
	changeAt map[uint64]int // places in Changes by K
}

func (r *reading) slot(index int) *Slot {
	at, ok := r.slotAt[index]
	if !ok {
		at = len(r.Slots)
		r.Slots, r.slotAt[index] = append(r.Slots, Slot{Index: index}), at
	}
	return &r.Slots[at]
}

func (r *reading) change(k uint64) *Change {
	at, ok := r.changeAt[k]
	if !ok {
		at = len(r.Changes)
		r.Changes, r.changeAt[k] = append(r.Changes, Change{K: k, Acks: map[int]bool{}}), at
	}
	return &r.Changes[at]
}

// sorted ends the reading.
func (r *reading) sorted() Communicator {
	c := r.Communicator
	// Where the slot record is gone, the record of leaving alone makes no slot.
	c.Slots = slices.DeleteFunc(c.Slots, func(s Slot) bool { return s.Identity == "" })
	slices.SortFunc(c.Slots, func(a, b Slot) int { return cmp.Compare(a.Index, b.Index) })
	// A change with nothing but an ack is a proposal that is not seen yet.
	c.Changes = slices.DeleteFunc(c.Changes, func(x Change) bool { return x.Proposal == nil && x.Decision == nil })
	slices.SortFunc(c.Changes, func(a, b Change) int { return cmp.Compare(a.K, b.K) })
	return c
}

// add adds what one record tells.
func (r *reading) add(k parsedKey, value []byte, made time.Time) (err error) {
	switch k.kind {
	case "init":
		var v VersionName
		v, err = decode[VersionName](value)
		r.Start, r.Started = v, made
	case "slot":
		s := r.slot(int(k.number))
		s.Identity, s.Name = parseSlot(value)
	case "left":
		r.slot(int(k.number)).Left = true
	case proposals:
		var p Proposal
		if p, err = decode[Proposal](value); err != nil {
			return err
		}
		change := r.change(k.number)
		if p.Freeze {
			change.Decision, change.Decided = &Decision{Abort: Duplicate, By: -1}, made
		} else {
			change.Proposal, change.Proposed = &p, made
		}
	case "d":
		_, d, ok := parseDecision(k.rest)
		if !ok {
			return errors.New("this is no decision")
		}
		change := r.change(k.number)
		change.Decision, change.Decided = &d, made
	case "why":
		if d := r.change(k.number).Decision; d != nil { // it comes before its "why", in order
			d.Detail = string(value)
		}
	case "note":
		if k.number >= r.noted {
			r.noted, r.Note = k.number, value
		}
	case "a":
		slots, _, ok := parseReportName(k.rest)
		if !ok {
			return errors.New("this is no acknowledgement")
		}
		for _, slot := range slots {
			r.change(k.number).Acks[slot] = true
		}
	}
	return err
}
