package agree

import "time"

// Communicator is what the records tell of a communicator. A zero time is unknown.
type Communicator struct {
	Key     string      `json:"-"` // of its records: CommKey's, and a number where the id was used before
	ID      uint64      `json:"-"`
	Ranks   int         `json:"ranks"`
	Start   VersionName `json:"-"`
	Started time.Time   `json:"-"`
	Slots   []Slot      `json:"-"` // those that are claimed, in order
	Changes []Change    `json:"-"` // by K, from 1 on
	Newest  time.Time   `json:"-"`
	Keys    []string    `json:"-"`                // of all its records
	Faults  []string    `json:"faults,omitempty"` // records that cannot be read
	Note    []byte      `json:"-"`                // see Member.PublishStatus; nil: none
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
