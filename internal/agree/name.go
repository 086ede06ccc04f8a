package agree

import (
	"context"
	"errors"
	"strings"
	"time"
)

// A program may name a communicator, and may name it otherwise on each rank. So that all ranks take the same
// name, each slot's record has its owner's. Once all slots are taken, one rank compares them and puts the
// outcome, which is never put again.

const (
	// nameLimit is how long a rank waits for the others' names. Then there is no name, on any rank.
	nameLimit = JoinLimit / 2
	namePause = 50 * time.Millisecond
)

// Name returns the name that Config.Name is on all ranks. It is "" if ranks were given different names or none.
// All ranks get the same answer, at any time. It waits until all ranks have joined, nameLimit at most. It must
// not run in AtTrigger.
func (m *Member) Name(ctx context.Context) (name string, err error) {
	waits, end := withLimit(ctx, m.cfg.Clock, nameLimit)
	defer end()
	for {
		err = m.persist(ctx, func(ctx context.Context) error {
			stands, found, err := m.cfg.Store.Get(ctx, m.keys.name())
			if err == nil && !found {
				stands, err = m.putName(ctx, waits.Err() != nil)
			}
			name = string(stands)
			return err
		})
		if !errors.Is(err, errNameOpen) {
			return name, err
		}
		sleep(waits, m.cfg.Clock, namePause, nil)
	}
}

// errNameOpen means that the ranks' names are not compared yet.
var errNameOpen = errors.New("the ranks' names of the communicator are not compared yet")

// putName puts the outcome if it is known to this rank, or if it is late, and returns what stands. The rank of
// the first slot compares: else each rank would read every slot.
func (m *Member) putName(ctx context.Context, late bool) (stands []byte, err error) {
	name := ""
	if !late {
		if m.slot > 0 {
			return nil, errNameOpen
		}
		if name, err = m.compareNames(ctx); err != nil {
			return nil, err
		}
	}
	return m.cfg.Store.PutOnce(ctx, m.keys.name(), []byte(name))
}

// compareNames returns the name that all slots' records have; "" if they differ.
func (m *Member) compareNames(ctx context.Context) (string, error) {
	slots, err := m.cfg.Store.List(ctx, m.keys.slots())
	if err == nil && len(slots) < m.cfg.Ranks {
		err = errNameOpen
	}
	if err != nil {
		return "", err
	}
	common := ""
	for i := range m.cfg.Ranks {
		value, found, err := m.cfg.Store.Get(ctx, m.keys.slot(i))
		switch {
		case err != nil:
			return "", err
		case !found:
			return "", errNameOpen
		}
		_, name := parseSlot(value)
		if i > 0 && name != common {
			return "", nil
		}
		common = name
	}
	return common, nil
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
