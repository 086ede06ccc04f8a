package agree

import (
	"cmp"
	"slices"
	"time"
)

// Communicator is what the records tell of a communicator. A zero time is unknown.
type Communicator struct {
	Key     string // of its records: CommKey's, and a number where the id was used before
	ID      uint64
	Ranks   int
	Start   VersionName
	Started time.Time
	Slots   []Slot   // those that are claimed, in order
	Changes []Change // by K, from 1 on
	Newest  time.Time
	Keys    []string // of all its records
	Faults  []error  // records that cannot be read
	Note    []byte   // see Member.Note; nil: none

	noted uint64
	// Places in Slots by index, and in Changes by K, while records are added.
	slotAt   map[int]int
	changeAt map[uint64]int
}

// Slot is one rank of a communicator.
type Slot struct {
	Index    int
	Identity string // Config.Identity of its owner
	Name     string // Config.Name of its owner
	Left     bool   // the owner has closed the communicator
}

// Change is a change that was proposed, or, without a Proposal, one that a freeze prevents.
type Change struct {
	K        uint64
	Proposal *Proposal
	Proposed time.Time
	// Acks has the slots of the ranks that have promised. It is complete only while the change is
	// undecided.
	Acks     map[int]bool
	Decision *Decision // nil: undecided
	Decided  time.Time
}

// InForce returns the version that was committed last, and when. A rank decides calls by it from the barrier
// on.
func (c *Communicator) InForce() (v VersionName, since time.Time) {
	v, since = c.Start, c.Started
	for _, change := range c.Changes {
		if d := change.Decision; d != nil && d.Commit && change.Proposal != nil {
			v, since = change.Proposal.VersionName, change.Decided
		}
	}
	return v, since
}

// Versions returns all versions that the communicator's records name.
func (c *Communicator) Versions() (all []VersionName) {
	if c.Start.Content != "" {
		all = append(all, c.Start)
	}
	for _, change := range c.Changes {
		if change.Proposal != nil {
			all = append(all, change.Proposal.VersionName)
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

func (c *Communicator) slot(index int) *Slot {
	at, ok := c.slotAt[index]
	if !ok {
		at = len(c.Slots)
		c.Slots, c.slotAt[index] = append(c.Slots, Slot{Index: index}), at
	}
	return &c.Slots[at]
}

func (c *Communicator) change(k uint64) *Change {
	at, ok := c.changeAt[k]
	if !ok {
		at = len(c.Changes)
		c.Changes, c.changeAt[k] = append(c.Changes, Change{K: k, Acks: map[int]bool{}}), at
	}
	return &c.Changes[at]
}

// sort ends the adding of records.
func (c *Communicator) sort() {
	c.slotAt, c.changeAt = nil, nil
	// Where the slot record is gone, the record of leaving alone makes no slot.
	c.Slots = slices.DeleteFunc(c.Slots, func(s Slot) bool { return s.Identity == "" })
	slices.SortFunc(c.Slots, func(a, b Slot) int { return cmp.Compare(a.Index, b.Index) })
	// A change with nothing but an ack is a proposal that is not seen yet.
	c.Changes = slices.DeleteFunc(c.Changes, func(x Change) bool { return x.Proposal == nil && x.Decision == nil })
	slices.SortFunc(c.Changes, func(a, b Change) int { return cmp.Compare(a.K, b.K) })
}
