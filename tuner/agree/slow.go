package agree

import (
	"fmt"
	"time"
)

// Slow is the main thread's way out of the fast path, before it decides call n, where
// no Move is ready for it, and after it made one that switches, to be told the snapshot.
// hash is the Counter's Hash, of the calls before n. It returns the snapshot to
// decide by from this call on, nil if that stays. It touches no store and waits
// only at S, for the decision.
func (m *Member) Slow(n, hash uint64) (next any, err error) {
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
		m.checkpoint(n, hash)
	}
	if m.state == promised && n >= m.change.Switch {
		m.await()
		waited = true
		if m.failed != nil {
			return nil, m.failed
		}
	}
	switch {
	case m.state == committed && n > m.change.Switch:
		m.fail(fmt.Errorf("%w: change %d was to come at call %d, this is call %d", ErrBroken, m.k, m.change.Switch, n))
		return nil, m.failed
	case m.state == committed && n == m.change.Switch:
		m.switchOver(n)
		return m.current.snapshot, nil
	case m.untold:
		m.untold = false
		return m.current.snapshot, nil
	case m.state == static && len(m.follow) > 0 && n >= m.follow[0].at:
		m.putInForce(m.follow[0].inForce, n)
		m.follow = m.follow[1:]
		m.setFollowTrigger()
		return m.current.snapshot, nil
	}
	return nil, nil
}

// switchOver puts the version of change k in force, from call n on.
func (m *Member) switchOver(n uint64) {
	m.putInForce(inForce{m.change.version, m.change.snapshot, m.k}, n)
	m.next(idle)
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

// checkpoint gives the promise not to decide call S undecided, or, if c is
// already behind, makes sure that this rank never acknowledges.
func (m *Member) checkpoint(n, hash uint64) {
	if n > m.change.Check {
		m.tooLate()
		return
	}
	m.cfg.Counter.Trig.Store(m.change.Switch)
	m.promise(hash)
	m.withdraw()
	m.poke()
}

// promise takes note that the main thread will stop at S.
func (m *Member) promise(hash uint64) {
	m.hash = hash
	m.state = promised
	m.settled = make(chan struct{})
}

// tooLate leaves ARMED for good: change k can only be aborted now.
func (m *Member) tooLate() {
	m.state = late
	m.withdraw()
	m.cfg.Counter.Trig.Store(Never)
	m.poke()
}

// next turns to the change after k, in state s.
func (m *Member) next(s state) {
	m.state = s
	m.k++
	m.change = change{}
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
	if m.settled != nil {
		close(m.settled)
		m.settled = nil
		m.waiting = false
	}
}

const (
	firstWarning = time.Second
	nextWarning  = 10 * time.Second
	longStall    = 100 * time.Millisecond
)

// await waits until change k is decided. The background puts the abort that ends
// this, as soon as it can; the answer of the store is the only thing to wait for.
func (m *Member) await() {
	began := m.cfg.Clock.Now()
	limit := m.cfg.Timing.StallLimit
	warn := firstWarning
	settled, k, at := m.settled, m.k, m.change.Switch
	m.waiting = true
	if m.cancelOp != nil {
		m.cancelOp() // a slow operation must not hold up the abort
	}
	m.poke()
	for m.state == promised && m.failed == nil {
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
		m.note(true, "change %d: call %d waited %v for the decision", k, at, waited.Round(time.Millisecond))
	}
}
