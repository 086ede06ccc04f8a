package agree

import "fmt"

// AtTrigger takes part in a change. The main thread calls it before it decides call n if n has reached the
// trigger. call is HashCall of call n. AtTrigger returns the snapshot to decide by from this call on, or nil
// if the snapshot stays. It never touches the store, and waits only at the barrier, for the decision.
func (m *Member) AtTrigger(n, call uint64) (next Snapshot, err error) {
	logs := false
	defer func() {
		if err != nil || logs {
			m.flushLog() // the background may hang in the store; a static member has none
		}
	}()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ending.failed != nil {
		return nil, m.ending.failed
	}
	if m.change.state == armed && n >= m.change.Check {
		m.checkpoint(n)
	}
	if m.change.state == promised && n >= m.change.Switch && m.isBarrier(n, call) {
		m.arrive(n, call)
	}
	if m.change.state == arrived && n >= m.change.arrival.at {
		m.await()
		logs = true
		if m.ending.failed != nil {
			return nil, m.ending.failed
		}
	}
	switch {
	case m.change.state == committed && n > m.change.arrival.at:
		m.fail(fmt.Errorf("%w: change %d was to come at call %d, this is call %d", ErrBroken, m.change.k,
			m.change.arrival.at, n))
		return nil, m.ending.failed
	case m.change.state == committed && n == m.change.arrival.at:
		m.putInForce(stagedVersion{VersionName: m.change.VersionName, snapshot: m.change.snapshot, k: m.change.k}, n)
		m.next(idle)
		return m.versions.current.snapshot, nil
	case m.change.state == static && len(m.versions.past) > 0 && n >= m.versions.past[0].at:
		m.putInForce(m.versions.past[0].stagedVersion, n)
		m.versions.past = m.versions.past[1:]
		m.setPastTrigger()
		logs = true
		return m.versions.current.snapshot, nil
	}
	return nil, nil
}

// checkpoint makes the promise at call c: the main thread stops at its trigger from call S on.
// If call c has passed, it makes sure that this rank never puts an ack.
func (m *Member) checkpoint(n uint64) {
	if n > m.change.Check {
		m.withdraw(Late)
		return
	}
	m.cfg.Counter.Trigger.Store(m.change.Switch)
	m.change.state, m.change.hash = promised, m.cfg.Counter.Hash()
	m.wakeUp()
}
