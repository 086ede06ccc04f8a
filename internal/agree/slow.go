package agree

import (
	"fmt"
	"time"
)

// Slow is the main thread's way out of the fast path, before it decides call n, where
// no Move is ready for it. call is HashCall of call n. It returns the snapshot to
// decide by from this call on, nil if that stays. It touches no store and waits only
// where the ranks meet, for the decision.
func (m *Member) Slow(n, call uint64) (next Snapshot, err error) {
	waited := false
	defer func() {
		if err != nil || waited {
			m.flush() // the background may hang in the store
		}
	}()
	m.lock()
	defer m.unlock()
	if m.failed != nil {
		return nil, m.failed
	}
	if m.state == armed && n >= m.change.Check {
		m.checkpoint(n)
	}
	if m.state == promised && n >= m.change.Switch && m.isToMeet(n, call) {
		m.stand(n, call)
	}
	if m.state == standing && n >= m.meeting.at {
		m.await()
		waited = true
		if m.failed != nil {
			return nil, m.failed
		}
	}
	switch {
	case m.state == committed && n > m.meeting.at:
		m.fail(fmt.Errorf("%w: change %d was to come at call %d, this is call %d", ErrBroken, m.k, m.meeting.at, n))
		return nil, m.failed
	case m.state == committed && n == m.meeting.at:
		m.putInForce(inForce{m.change.version, m.change.snapshot, m.k}, n)
		m.next(idle)
		return m.current.snapshot, nil
	case m.state == static && len(m.follow) > 0 && n >= m.follow[0].at:
		m.putInForce(m.follow[0].inForce, n)
		m.follow = m.follow[1:]
		m.setFollowTrigger()
		return m.current.snapshot, nil
	}
	return nil, nil
}

func (m *Member) putInForce(v inForce, n uint64) {
	m.retired = append(m.retired, m.current.snapshot)
	m.begun = append(m.begun, v.snapshot)
	m.current = v
	since := ""
	if w := m.wish; w != nil && w.Meaning == v.Meaning {
		since = fmt.Sprintf(", %v after the save", (m.cfg.Clock.Now() - w.since).Round(time.Millisecond))
		m.wish = nil
	}
	m.note(false, "change %d: version %.12s is in force from call %d on%s", v.k, v.Meaning, n, since)
	m.poke()
}

// checkpoint gives the promise to come to Slow before each call from S on, or, if c
// is already behind, makes sure that this rank never acknowledges.
func (m *Member) checkpoint(n uint64) {
	if n > m.change.Check {
		m.abstain(Late)
		return
	}
	m.cfg.Counter.Trig.Store(m.change.Switch)
	m.promise(m.cfg.Counter.Hash.Load())
	m.withdraw()
	m.poke()
}

// promise takes note that the main thread comes to Slow from S on.
func (m *Member) promise(hash uint64) {
	m.hash = hash
	m.passed = 0
	m.state = promised
}

// abstain leaves change k for good, before this rank has signed that it stands: so
// change k can only be aborted now.
func (m *Member) abstain(why Reason) {
	m.state = late
	m.change.why = why
	m.meeting = meeting{}
	m.withdraw()
	m.release()
	m.cfg.Counter.Trig.Store(Never)
	m.poke()
}

// next turns to the change after k, in state s.
func (m *Member) next(s state) {
	m.state = s
	m.k++
	m.change = change{}
	m.meeting = meeting{}
	m.release()
	m.withdraw()
	m.cfg.Counter.Trig.Store(Never)
}

// fail ends the communicator: a rank that could not decide a call would be one
// call behind the others with each later one.
func (m *Member) fail(err error) {
	m.failed = err
	m.withdraw()
	m.cfg.Counter.Trig.Store(0)
	m.note(true, "change %d: %v; this call and all later ones of the communicator fail", m.k, err)
	m.release()
}

// release ends the wait for the decision of change k.
func (m *Member) release() {
	m.waiting = false
	if m.settled != nil {
		close(m.settled)
		m.settled = nil
	}
}

const (
	firstWarning = time.Second
	nextWarning  = 10 * time.Second
	longStall    = 100 * time.Millisecond
)

// await waits until change k is decided, or given up by the background, which does
// all there is to do at the store meanwhile.
func (m *Member) await() {
	began := m.cfg.Clock.Now()
	limit := m.cfg.Timing.StallLimit
	warn := max(firstWarning, 2*m.settle())
	settled, k, at := make(chan struct{}), m.k, m.meeting.at
	m.settled = settled
	m.waiting = true
	if m.cancelOp != nil {
		m.cancelOp() // a slow operation must not hold up what is waited for
	}
	m.poke()
	for m.state == standing && m.failed == nil {
		waited := m.cfg.Clock.Now() - began
		if limit > 0 && waited >= limit {
			m.fail(fmt.Errorf("%w (waited %v for change %d)", ErrStalled, waited.Round(time.Second), k))
			return
		}
		if waited >= warn {
			m.note(true, "change %d: call %d has waited %v for the store to tell the decision", k, at, waited.Round(time.Second))
			warn += nextWarning
		}
		until := warn - waited
		if limit > 0 {
			until = min(until, limit-waited)
		}
		rings, stop := alarm(m.cfg.Clock, until)
		m.unlock()
		m.flush()
		select {
		case <-settled:
		case <-rings:
		}
		stop()
		m.lock()
	}
	if waited := m.cfg.Clock.Now() - began; waited > longStall {
		m.note(false, "change %d: call %d waited %v for the other ranks", k, at, waited.Round(time.Millisecond))
	}
}
