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
	for k := uint64(1); ; k++ {
		var p Proposal
		var d Decision
		err := m.persist(ctx, func(ctx context.Context) (err error) {
			p, err = m.freeze(ctx, k)
			if err == nil && !p.Freeze {
				d, err = m.settleAsDuplicate(ctx, k, p)
			}
			return err
		})
		switch {
		case err != nil:
			return err
		case p.Freeze || d.Frozen():
			return nil
		case !d.Commit:
			continue
		}
		v, err := m.load(ctx, p.version, k)
		if err != nil {
			return err
		}
		m.follow = append(m.follow, planned{d.At, v})
	}
}

// freeze keeps change k from being proposed, or returns the proposal that there is.
func (m *Member) freeze(ctx context.Context, k uint64) (p Proposal, err error) {
	none := Proposal{Freeze: true}
	stands, err := m.cfg.Store.PutOnce(ctx, m.keys.proposal(k), encode(none))
	if errors.Is(err, ErrRefused) && m.isOver(ctx, k) {
		return none, nil
	}
	if err != nil {
		return p, err
	}
	return decode[Proposal](stands)
}

// settleAsDuplicate aborts a change, or returns what was decided before.
func (m *Member) settleAsDuplicate(ctx context.Context, k uint64, p Proposal) (Decision, error) {
	abort := Decision{Abort: Duplicate, By: -1}
	err := m.cfg.Store.Move(ctx, m.keys.token(k, p.Tag), m.keys.decisions()+"/"+abort.name(k))
	if err != nil && !errors.Is(err, ErrNoRecord) {
		return abort, err
	}
	names, err := m.cfg.Store.List(ctx, m.keys.decisions())
	for _, name := range names {
		if of, d, ok := parseDecision(name); ok && of == k {
			return d, nil
		}
	}
	if err == nil {
		err = errors.New("the decision of a change has vanished")
	}
	return abort, err
}

// isOver reports that every owner of a slot has ended the communicator and nobody has
// proposed change k: nobody will, and it need not be forbidden.
func (m *Member) isOver(ctx context.Context, k uint64) bool {
	for slot := range m.cfg.Ranks {
		if _, found, err := m.cfg.Store.Get(ctx, m.keys.left(slot)); err != nil || !found {
			return false
		}
	}
	_, found, err := m.cfg.Store.Get(ctx, m.keys.proposal(k))
	return err == nil && !found
}

// setFollowTrigger aims the Counter at the next switch of a static member.
func (m *Member) setFollowTrigger() {
	at := uint64(Never)
	if len(m.follow) > 0 {
		at = m.follow[0].at
	}
	m.cfg.Counter.Trig.Store(at)
}
