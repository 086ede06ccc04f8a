package agree

import (
	"errors"
	"slices"
	"time"
)

// stepStanding does at the store what a rank that stands waits for: it says that the
// rank stands, and obeys the decision. A change that the others do not come to is
// aborted after a while: NCCL cannot run the collective before they do, but the thread
// may have other work.
func (m *Member) stepStanding(c change) time.Duration {
	m.lock()
	k, at := m.k, m.meeting
	m.unlock()
	if at.key == "" {
		return forever // who signs wakes this rank
	}
	timeout := m.cfg.Clock.Now()-at.since > m.settle()
	m.hurried = !timeout
	if !at.attempted || !at.landed && !at.proxy {
		if wait, ok := m.sign(at, timeout); !ok {
			return wait
		}
	}
	if timeout {
		return m.decide(Decision{Abort: Stall})
	}
	if c.mine {
		if verdict, ok := m.count(m.keys.mets(k), at.hash); ok {
			verdict.At = at.at
			return m.decide(verdict)
		}
	}
	return m.look()
}

// sign puts the record that this rank stands, if the records that the change rests on
// are those that it knows. Before it tries, it may leave the change by itself; after that
// it may not, whether or not the put succeeds.
func (m *Member) sign(at meeting, timeout bool) (wait time.Duration, ok bool) {
	if !at.attempted {
		switch intact, gone, err := m.intact(); {
		case err == nil && gone: // decided, most likely: a rank that is late finds out
			m.giveUp(at, Stall)
			return 0, false
		case err == nil && !intact:
			m.lose()
			return 0, false
		case err != nil && timeout:
			m.giveUp(at, Stall)
			return 0, false
		case err != nil:
			return m.retry(), false
		}
		m.setAttempted(true)
	}
	ctx, end := m.op()
	_, err := m.put(ctx, at.key, nil)
	end()
	switch {
	case errors.Is(err, ErrRefused) && !at.attempted:
		m.setAttempted(false)
		if timeout {
			m.giveUp(at, CannotStage)
		}
		return m.retry(), false
	case err != nil:
		return m.retry(), timeout
	}
	m.lock()
	m.meeting.landed = true
	k := m.k
	m.unlock()
	for _, s := range at.signed {
		s.lock()
		if s.k == k && s.state == standing {
			s.meeting.landed = true
		}
		s.unlock()
	}
	return 0, true
}

func (m *Member) setAttempted(attempted bool) {
	m.lock()
	m.meeting.attempted = attempted
	m.unlock()
}

// giveUp lets this rank, and those that it has signed for, go on as they were: no
// record says that they stand.
func (m *Member) giveUp(at meeting, why Reason) {
	for _, s := range append(slices.Clone(at.signed), m) {
		s.lock()
		if s.state == standing && s.meeting.key == at.key {
			s.abstain(why)
		}
		s.unlock()
	}
}

// lose keeps the version in force for good: the records are not those that this rank
// has made, so nothing that they say counts.
func (m *Member) lose() {
	m.lock()
	at := m.meeting
	m.unlock()
	for _, s := range append(slices.Clone(at.signed), m) {
		s.lock()
		if stands := s.state == standing && s.meeting.key == at.key; s.failed == nil && (s == m || stands) {
			if s.change.staged {
				s.retired = append(s.retired, s.change.snapshot)
			}
			s.why = "the ranks' records have vanished from the rendezvous"
			s.next(frozen)
			s.note(true, "%s: somebody has emptied or replaced it; this communicator keeps version %.12s for good", s.why, s.current.Meaning)
		}
		s.unlock()
	}
}

// intact reports whether the records that this rank relies on are still there, the very
// ones that it knows: its slot and the proposal's token. gone: there is no token, as
// after any decision.
func (m *Member) intact() (intact, gone bool, err error) {
	m.lock()
	k, c := m.k, m.change
	m.unlock()
	token := m.keys.token(k, c.Tag)
	for _, r := range []struct{ key, mark string }{{m.keys.slot(m.slot), m.slotMark}, {token, c.Token}} {
		ctx, end := m.op()
		mark, err := m.cfg.Store.Mark(ctx, r.key)
		end()
		if err != nil || mark != r.mark {
			return false, r.key == token && mark == "", err
		}
	}
	return true, false, nil
}

// miss takes note that the proposal's token is gone and no decision is there. A rank
// that nobody can have counted as standing goes on as it was. Another one cannot know
// whether the others changed: it waits, for the records may be out of sight only.
func (m *Member) miss() {
	m.lock()
	now, c, counted := m.cfg.Clock.Now(), &m.change, m.state == standing && m.meeting.attempted
	if c.missed == 0 {
		c.missed = now
	}
	isLost := !counted && now-c.missed > stageLimit
	if counted && !m.meeting.doubted && now-c.missed > firstWarning {
		m.meeting.doubted = true
		m.note(true, "change %d: the ranks' records have vanished from the rendezvous (somebody has emptied or replaced it), so this rank cannot know whether the others changed", m.k)
	}
	m.unlock()
	if isLost {
		m.lose()
	}
}
