package agree

import (
	"errors"
	"slices"
	"time"
)

// stepArrived does at the store what a rank at the barrier needs: it puts the arrival and
// polls the decision. If the others do not arrive in time, it aborts: NCCL cannot run the
// collective before they do, but the thread may have other work.
func (m *Member) stepArrived(c change) time.Duration {
	m.mu.Lock()
	k, at := m.k, m.arrival
	m.mu.Unlock()
	if at.key == "" {
		return forever // arrive, on the thread that sets the key, wakes this rank
	}
	timeout := m.cfg.Clock.Now()-at.since > m.settle()
	m.pollsFast = !timeout
	if !at.attempted || !at.landed && !at.byProxy {
		if wait, ok := m.putArrival(at, timeout); !ok {
			return wait
		}
	}
	if timeout {
		return m.decide(Decision{Abort: Stall})
	}
	if c.mine {
		if verdict, ok := m.countReports(m.keys.arrivals(k), at.hash); ok {
			verdict.At = at.at
			return m.decide(verdict)
		}
	}
	return m.pollDecision()
}

// putArrival puts the record that this rank has arrived, if the records that the change
// rests on are those that this rank knows. Before the attempt the rank may withdraw. After
// it the rank may not, whether or not the put succeeds, because the record may land later.
func (m *Member) putArrival(at arrival, timeout bool) (wait time.Duration, ok bool) {
	if !at.attempted {
		switch intact, gone, err := m.intact(); {
		case err == nil && gone: // most likely decided: in state withdrawn it finds out
			m.giveUp(at, Stall)
			return 0, false
		case err == nil && !intact:
			m.loseRecords()
			return 0, false
		case err != nil && timeout:
			m.giveUp(at, Stall)
			return 0, false
		case err != nil:
			return m.retry(), false
		}
		m.setAttempted(true)
	}
	_, err := m.put(at.key, nil)
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
	m.mu.Lock()
	m.arrival.landed = true
	k := m.k
	m.mu.Unlock()
	for _, s := range at.represented {
		s.mu.Lock()
		if s.k == k && s.state == arrived {
			s.arrival.landed = true
		}
		s.mu.Unlock()
	}
	return 0, true
}

func (m *Member) setAttempted(attempted bool) {
	m.mu.Lock()
	m.arrival.attempted = attempted
	m.mu.Unlock()
}

// giveUp withdraws this rank and those that it represents. The caller knows that no record
// of their arrival exists.
func (m *Member) giveUp(at arrival, why Reason) {
	for _, s := range append(slices.Clone(at.represented), m) {
		s.mu.Lock()
		if s.state == arrived && s.arrival.key == at.key {
			s.withdraw(why)
		}
		s.mu.Unlock()
	}
}

// loseRecords freezes this rank and those that it represents: the records are not those
// that this rank knows, so nothing they say counts.
func (m *Member) loseRecords() {
	m.mu.Lock()
	at := m.arrival
	m.mu.Unlock()
	for _, s := range append(slices.Clone(at.represented), m) {
		s.mu.Lock()
		if waits := s.state == arrived && s.arrival.key == at.key; s.failed == nil && (s == m || waits) {
			if s.change.staged {
				s.retired = append(s.retired, s.change.snapshot)
			}
			s.next(frozen)
			s.logLocked(true, "the ranks' records have vanished from the rendezvous: somebody has emptied or replaced it; this communicator keeps version %.12s for good", s.current.Meaning)
		}
		s.mu.Unlock()
	}
}

// intact reports whether the records that this rank relies on are the ones that it knows:
// its slot and the proposal's token. gone: there is no token, as after any decision.
func (m *Member) intact() (intact, gone bool, err error) {
	m.mu.Lock()
	k, c := m.k, m.change
	m.mu.Unlock()
	token := m.keys.token(k, c.Tag)
	for _, r := range []struct{ key, mark string }{{m.keys.slot(m.slot), m.slotMark}, {token, c.Token}} {
		mark, err := m.mark(r.key)
		if err != nil || mark != r.mark {
			return false, r.key == token && mark == "", err
		}
	}
	return true, false, nil
}

// missToken handles a token that is gone without a decision. A rank that cannot have been
// counted as arrived freezes after a while. Another one cannot know whether the others have
// changed: it waits, because the records may only be out of sight.
func (m *Member) missToken() {
	m.mu.Lock()
	now, c, counted := m.cfg.Clock.Now(), &m.change, m.state == arrived && m.arrival.attempted
	if c.missed == 0 {
		c.missed = now
	}
	isLost := !counted && now-c.missed > stageLimit
	if counted && !m.arrival.doubted && now-c.missed > firstWarning {
		m.arrival.doubted = true
		m.logLocked(true, "change %d: the ranks' records have vanished from the rendezvous (somebody has emptied or replaced it), so this rank cannot know whether the others changed", m.k)
	}
	m.mu.Unlock()
	if isLost {
		m.loseRecords()
	}
}
