package agree

import (
	"context"
	"errors"
	"fmt"
)

// An id may be used again once its communicator has ended. The next one of that id is another
// generation, with keys of its own: records of the first may still be about to be removed.

// errEnded means that the communicator with these keys has ended.
var errEnded = errors.New("an earlier communicator had this id")

// join finds the first generation of the id that has not ended, and joins it.
func (m *Member) join(ctx context.Context) error {
	for generation := 1; ; generation++ {
		if err := m.joinGeneration(ctx); !errors.Is(err, errEnded) {
			return err
		}
		m.slotState = slotState{keys: keys(fmt.Sprintf("%s-%d", m.cfg.Comm, generation)), slot: -1} // see parseCommKey
		if m.versions.current.snapshot != nil {
			m.retired.add(m.versions.current.snapshot)
		}
		m.versions.current = stagedVersion{}
	}
}

// checkEnded returns errEnded if the communicator with these keys has ended, all others have left.
func (m *Member) checkEnded(ctx context.Context) error {
	_, ended, err := m.cfg.Store.Get(ctx, m.keys.ended())
	if err == nil && ended {
		err = errEnded
	}
	return err
}

// checkJoined makes sure that nobody was removing the records while this rank claimed a slot, or found none.
// The record of the end is put before the first removal. So if it does not exist by now, this rank has missed
// no record.
func (m *Member) checkJoined(ctx context.Context) error {
	return m.retryUntil(ctx, func(ctx context.Context) error {
		var kept error
		if m.slot < 0 {
			// It has to follow the changes that are decided.
			stands, err := m.cfg.Store.PutOnce(ctx, m.keys.history(), []byte(historyKept))
			if kept = err; err == nil && string(stands) != historyKept {
				kept = errors.New("the first has removed records of what it decided")
			}
		}
		if err := m.checkEnded(ctx); err != nil {
			return err
		}
		return kept
	})
}
