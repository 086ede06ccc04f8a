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
	at := c.arrival
	if at.key == "" {
		return forever // arrive, on the thread that sets the key, wakes this rank
	}
	timeout := m.cfg.Clock.Now()-at.since > m.settle()
	m.background.pollsFast = !timeout
	if !at.attempted || !at.landed && !at.byProxy {
		if wait, ok := m.putArrival(c, timeout); !ok {
			return wait
		}
	}
	if timeout {
		return m.decide(c, Decision{Abort: Stall})
	}
	if c.mine {
		if verdict, ok := m.countReports(m.keys.arrivals(c.k), at.hash); ok {
			verdict.At = at.at
			return m.decide(c, verdict)
		}
	}
	return m.pollDecision(c)
}

// putArrival puts the record that this rank has arrived, if the records that the change
// rests on are those that this rank knows. Before the attempt the rank may withdraw. After
// it the rank may not, whether or not the put succeeds, because the record may land later.
func (m *Member) putArrival(c change, timeout bool) (wait time.Duration, ok bool) {
	at := c.arrival
	if !at.attempted {
		switch intact, gone, err := m.intact(c); {
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
	m.change.arrival.landed = true
	m.mu.Unlock()
	return 0, true
}

func (m *Member) setAttempted(attempted bool) {
	m.mu.Lock()
	m.change.arrival.attempted = attempted
	m.mu.Unlock()
}

// giveUp withdraws this rank and those that it represents. The caller knows that no record
// of their arrival exists.
func (m *Member) giveUp(at arrival, why Reason) {
	for _, s := range append(slices.Clone(at.represented), m) {
		s.mu.Lock()
		if s.change.state == arrived && s.change.arrival.key == at.key {
			s.withdraw(why)
		}
		s.mu.Unlock()
	}
}

// loseRecords freezes this rank and those that it represents: the records are not those
// that this rank knows, so nothing they say counts.
func (m *Member) loseRecords() {
	m.mu.Lock()
	at := m.change.arrival
	m.mu.Unlock()
	for _, s := range append(slices.Clone(at.represented), m) {
		s.mu.Lock()
		waits := s.change.state == arrived && s.change.arrival.key == at.key
		if s.ending.failed == nil && (s == m || waits) {
			s.dropStaged()
			s.next(frozen)
			s.log(true, "the ranks' records have vanished from the rendezvous: somebody has emptied or replaced it; "+
				"this communicator keeps version %.12s for good", s.versions.current.Meaning)
		}
		s.mu.Unlock()
	}
}

// intact reports whether the records that this rank relies on are the ones that it knows:
// its slot and the proposal's token. gone: there is no token, as after any decision.
func (m *Member) intact(c change) (intact, gone bool, err error) {
	token := m.keys.token(c.k, c.Tag)
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
func (m *Member) missToken(c change) {
	now, counted, progress := m.cfg.Clock.Now(), m.isCounted(), &m.background.progress
	if progress.missed == 0 {
		progress.missed = now
	}
	switch missed := now - progress.missed; {
	case !counted && missed > stageLimit:
		m.loseRecords()
	case counted && !progress.doubted && missed > firstWarning:
		progress.doubted = true
		m.log(true,
			"change %d: the ranks' records have vanished from the rendezvous (somebody has emptied or replaced it), "+
				"so this rank cannot know whether the others changed", c.k)
	}
}
