package agree

import (
	"context"
	"errors"
)

// joinAsDuplicate is Join for a rank that finds no free slot: its communicator shares its id
// with another one, of which some changes may be decided. The rank follows those that were
// committed, because ranks of its own communicator may hold slots and obey them, and
// prevents all later ones. A switch is never at call 0, so the rank misses none.
func (m *Member) joinAsDuplicate(ctx context.Context) error {
	for k := uint64(1); ; k++ {
		var p Proposal
		var d Decision
		err := m.retryUntil(ctx, func(ctx context.Context) error {
			// This forbids the change, unless it is proposed already.
			stands, err := m.cfg.Store.PutOnce(ctx, m.keys.proposal(k), encode(Proposal{Freeze: true}))
			if err == nil {
				p, err = decode[Proposal](stands)
			}
			if err == nil && !p.Freeze {
				d, err = m.abortAsDuplicate(ctx, k, p)
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
		v, err := m.load(ctx, p.VersionName, k)
		if err != nil {
			return err
		}
		m.versions.past = append(m.versions.past, pastCommit{d.At, v})
	}
}

// abortAsDuplicate aborts change k, or returns the decision that there is.
func (m *Member) abortAsDuplicate(ctx context.Context, k uint64, p Proposal) (Decision, error) {
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

// setPastTrigger sets the trigger to the next switch of a static member.
func (m *Member) setPastTrigger() {
	at := uint64(Never)
	if len(m.versions.past) > 0 {
		at = m.versions.past[0].at
	}
	m.cfg.Counter.Trigger.Store(at)
}
