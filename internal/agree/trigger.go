package agree

import (
	"fmt"
	"time"
)

// AtTrigger is what the main thread calls before it decides call n, when the trigger is
// reached. call is HashCall of call n. AtTrigger returns the snapshot to decide by from this
// call on, nil if that stays. It never touches the store, and waits only at the barrier, for
// the decision.
func (m *Member) AtTrigger(n, call uint64) (next Snapshot, err error) {
	logs := false
	defer func() {
		if err != nil || logs {
			m.flushLog() // the background may hang in the store; a static member has none
		}
	}()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed != nil {
		return nil, m.failed
	}
	if m.state == armed && n >= m.change.Check {
		m.checkpoint(n)
	}
	if m.state == promised && n >= m.change.Switch && m.isBarrier(n, call) {
		m.arrive(n, call)
	}
	if m.state == arrived && n >= m.arrival.at {
		m.await()
		logs = true
		if m.failed != nil {
			return nil, m.failed
		}
	}
	switch {
	case m.state == committed && n > m.arrival.at:
		m.fail(fmt.Errorf("%w: change %d was to come at call %d, this is call %d", ErrBroken, m.k, m.arrival.at, n))
		return nil, m.failed
	case m.state == committed && n == m.arrival.at:
		m.putInForce(stagedVersion{VersionName: m.change.VersionName, snapshot: m.change.snapshot, k: m.k}, n)
		m.next(idle)
		return m.current.snapshot, nil
	case m.state == static && len(m.past) > 0 && n >= m.past[0].at:
		m.putInForce(m.past[0].stagedVersion, n)
		m.past = m.past[1:]
		m.setPastTrigger()
		logs = true
		return m.current.snapshot, nil
	}
	return nil, nil
}

func (m *Member) putInForce(v stagedVersion, n uint64) {
	m.retired = append(m.retired, m.current.snapshot)
	m.current = v
	m.current.from = n
	since, took := "", time.Duration(0)
	e := m.pending
	own := e != nil && !e.proposed && e.Meaning == v.Meaning
	if own {
		took = m.cfg.Clock.Now() - e.since
		since = fmt.Sprintf(", %v after the save", took.Round(time.Millisecond))
	}
	edited := own || !m.change.mine // what other ranks propose are edits
	m.current.proposed = !edited
	if edited {
		m.unseen, m.wanted = true, v.Meaning
	}
	if e != nil && (e.Meaning == v.Meaning || e.proposed && edited) {
		m.pending = nil
	}
	m.observeCommit(took)
	if own || m.change.mine || m.state == static { // not every rank, at each turn of a comparison
		m.logLocked(false, "change %d: version %.12s is in force from call %d on%s", v.k, v.Meaning, n, since)
	}
	m.wakeUp()
}

// checkpoint makes the promise at call c: the main thread stops at its trigger from call S on.
// If call c has passed, it makes sure that this rank never puts an ack.
func (m *Member) checkpoint(n uint64) {
	if n > m.change.Check {
		m.withdraw(Late)
		return
	}
	m.cfg.Counter.Trigger.Store(m.change.Switch)
	m.hash = m.cfg.Counter.Hash()
	m.passed = 0
	m.state = promised
	m.wakeUp()
}

// withdraw takes this rank out of change k. The caller knows that this rank has not put its
// arrival, so change k can only be aborted.
func (m *Member) withdraw(why Reason) {
	if m.failed != nil {
		return // the trigger has to stay: no later call may be decided
	}
	m.state = withdrawn
	m.change.why = why
	m.arrival = arrival{}
	m.release()
	m.cfg.Counter.Trigger.Store(Never)
	m.wakeUp()
}

// next turns to the change after k, in state s.
func (m *Member) next(s state) {
	m.state = s
	m.k++
	m.change = change{}
	m.arrival = arrival{}
	m.release()
	m.cfg.Counter.Trigger.Store(Never)
}

// fail makes this call and all later ones fail: a rank that left out one call would decide
// each later one a call behind the others.
func (m *Member) fail(err error) {
	m.logLocked(true, "change %d: %v; this call and all later ones of the communicator fail", m.k, err)
	m.failSilently(err)
}

func (m *Member) failSilently(err error) {
	m.failed = err
	m.cfg.Counter.Trigger.Store(0)
	m.release()
}

// release ends the main thread's wait for the decision of change k.
func (m *Member) release() {
	m.waiting = false
	if m.decided != nil {
		close(m.decided)
		m.decided = nil
	}
}

const (
	firstWarning = time.Second
	nextWarning  = 10 * time.Second
	longStall    = 100 * time.Millisecond
	waitSlice    = time.Second
)

// await waits until change k is decided, or until the background has withdrawn this rank.
// The background does all store operations meanwhile.
//
// Only time in which the process runs counts, for it may be stopped: by a debugger, with its job. So the
// wait is one of slices, each of which counts as no more than it was to be. The limit does not end the wait
// in a slice in which the process was stopped, because the background has to ask the store first.
func (m *Member) await() {
	limit := m.cfg.Timing.StallLimit
	warn := max(firstWarning, 2*m.settle())
	decided, k, at := make(chan struct{}), m.k, m.arrival.at
	m.decided = decided
	m.waiting = true
	if m.cancelOp != nil {
		m.cancelOp() // a slow operation must not delay the arrival
	}
	m.wakeUp()
	var waited time.Duration
	stopped := false
	for m.state == arrived && m.failed == nil {
		if limit > 0 && waited >= limit && !stopped {
			m.fail(fmt.Errorf("%w (waited %v for change %d)", ErrStalled, waited.Round(time.Second), k))
			return
		}
		if waited >= warn {
			m.logLocked(true, "change %d: call %d has waited %v for the store to tell the decision", k, at, waited.Round(time.Second))
			warn += nextWarning
		}
		began := m.cfg.Clock.Now()
		fired, stop := newTimer(m.cfg.Clock, waitSlice)
		m.mu.Unlock()
		m.flushLog()
		select {
		case <-decided:
		case <-fired:
		}
		stop()
		m.mu.Lock()
		slept := m.cfg.Clock.Now() - began
		waited += min(slept, waitSlice)
		stopped = slept > 2*waitSlice
	}
	if waited > longStall {
		m.logLocked(false, "change %d: call %d waited %v for the other ranks", k, at, waited.Round(time.Millisecond))
	}
}
