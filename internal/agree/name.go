package agree

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Ranks answers Config.Stage, while it runs.
type Ranks struct {
	m   *Member
	ctx context.Context
}

// Same returns an error unless this rank knows of the communicator what its first rank knows. What they know is
// text about one thing.
func (r Ranks) Same(known string) error {
	stands, err := r.m.putFirst(r.ctx, r.m.keys.known(), known)
	if err == nil && stands != known {
		err = fmt.Errorf("%w: %s on this rank, %s on another", ErrMixedKnowledge, known, stands)
	}
	return err
}

// A program may name a communicator, and may name it otherwise on each rank. So that all ranks take the same
// name, each slot's record has its owner's. Once all slots are taken, one rank compares them and puts the
// outcome, which is never put again.

const (
	// nameLimit is how long a rank waits for the others' names. Then there is no name, on any rank.
	nameLimit = JoinLimit / 2
	namePause = 50 * time.Millisecond
)

// Name returns the name that Config.Name is on all ranks. It is "" if ranks were given different names or none.
// All ranks get the same answer, at any time. It waits until all ranks have joined, nameLimit at most.
func (r Ranks) Name() (name string, err error) {
	m := r.m
	waits, end := withLimit(r.ctx, m.cfg.Clock, nameLimit)
	defer end()
	for {
		known := false
		err := m.retryUntil(r.ctx, func(ctx context.Context) (err error) {
			var stands []byte
			if stands, known, err = m.cfg.Store.Get(ctx, m.keys.name()); err != nil || known {
				name = string(stands)
				return err
			}
			if m.slot <= 0 { // one rank compares, else each would read every slot
				name, known, err = m.compareNames(ctx)
			}
			return err
		})
		if err != nil {
			return "", err
		}
		if known || waits.Err() != nil {
			return m.putFirst(r.ctx, m.keys.name(), name)
		}
		sleep(waits, m.cfg.Clock, namePause, nil)
	}
}

// putFirst puts a record unless there is one, and returns what stands.
func (m *Member) putFirst(ctx context.Context, key, text string) (stands string, err error) {
	err = m.retryUntil(ctx, func(ctx context.Context) error {
		value, err := m.cfg.Store.PutOnce(ctx, key, []byte(text))
		stands = string(value)
		return err
	})
	return stands, err
}

// compareNames returns the name that all slots' records have, "" if they differ. known is false while some are not
// taken.
func (m *Member) compareNames(ctx context.Context) (common string, known bool, err error) {
	slots, err := m.cfg.Store.List(ctx, m.keys.slots())
	if err != nil || len(slots) < m.cfg.Ranks {
		return "", false, err
	}
	for i := range m.cfg.Ranks {
		value, found, err := m.cfg.Store.Get(ctx, m.keys.slot(i))
		if err != nil || !found {
			return "", false, err
		}
		_, name := parseSlot(value)
		if i > 0 && name != common {
			return "", true, nil
		}
		common = name
	}
	return common, true, nil
}

// slotRecord is what a rank puts into its slot.
func (c *Config) slotRecord() []byte {
	if c.Name == "" {
		return []byte(c.Identity)
	}
	return []byte(c.Identity + "\n" + c.Name)
}

// parseSlot reads what slotRecord has made.
func parseSlot(record []byte) (identity, name string) {
	identity, name, _ = strings.Cut(string(record), "\n")
	return identity, name
}
