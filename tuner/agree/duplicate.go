package agree

import (
	"context"
	"errors"
)

// walk is for a rank that found no slot: its communicator shares its id with
// another, of which some changes may be decided. It obeys those that were
// committed, for ranks of its own communicator may hold slots and obey them too,
// and forbids all that follow. All switches lie above call 0, so none is missed.
func (m *Member) walk(ctx context.Context) error {
	freeze := encode(Decision{Abort: Duplicate, By: -1, Frozen: true})
	for k := uint64(1); ; k++ {
		var d Decision
		err := m.persist(ctx, func(ctx context.Context) error {
			stands, err := m.cfg.Store.PutOnce(ctx, m.keys.decision(k), freeze)
			if err != nil {
				return err
			}
			d, err = decode[Decision](stands)
			return err
		})
		if err != nil {
			return err
		}
		switch {
		case d.Frozen:
			return nil
		case !d.Commit:
			continue
		}
		var p Proposal
		err = m.persist(ctx, func(ctx context.Context) error {
			text, found, err := m.cfg.Store.Get(ctx, m.keys.proposal(k))
			if err == nil && !found {
				err = errors.New("a proposal that was committed is not there")
			}
			if err == nil {
				p, err = decode[Proposal](text)
			}
			return err
		})
		if err != nil {
			return err
		}
		v, err := m.load(ctx, p.version, k)
		if err != nil {
			return err
		}
		m.follow = append(m.follow, planned{p.Switch, v})
	}
}

// setFollowTrigger aims the Counter at the next switch of a static member.
func (m *Member) setFollowTrigger() {
	at := uint64(Never)
	if len(m.follow) > 0 {
		at = m.follow[0].at
	}
	m.cfg.Counter.Trig.Store(at)
}
