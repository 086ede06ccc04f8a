package agree

import "context"

// ending tells whether the member goes on. Member.mu guards it.
type ending struct {
	leaving bool  // the background is to end
	failed  error // all calls fail; nil: they do not
}

// fail makes this call and all later ones fail. A rank that left out one call would decide each later call
// one call behind the others.
func (m *Member) fail(err error) {
	m.log(true, "change %d: %v; this call and all later ones of the communicator fail", m.change.k, err)
	m.failSilently(err)
}

func (m *Member) failSilently(err error) {
	m.ending.failed = err
	m.cfg.Counter.Trigger.Store(0)
	m.wait.release()
}

// EndWait begins to end the member. A waiting AtTrigger fails with ErrClosed, and so does each later call of
// it. Close must follow once AtTrigger has returned.
func (m *Member) EndWait() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ending.leaving = true
	switch {
	case m.ending.failed != nil:
	case m.wait.decided != nil:
		m.fail(ErrClosed)
	default:
		m.failSilently(ErrClosed)
	}
	m.wait.interrupt()
	m.wakeUp()
}

// Close ends the member, within about a second even if the store hangs. AtTrigger must not be running, and
// must not be called again. The caller owns the snapshot in force from now on.
func (m *Member) Close() {
	m.EndWait()
	if !m.IsStatic() {
		sleep(context.Background(), m.cfg.Clock, leaveLimit, m.done)
		m.cfg.Poller.remove(m)
	}
	m.stop()
	<-m.done
	m.retireAll()
	m.flushLog()
}

// leave aborts a change that would wait for this rank, and puts the record that this rank
// has left. The last one removes the communicator's records. All is tried once, because no member
// needs it: the other ranks' waits are bounded.
func (m *Member) leave() {
	m.background.urgent = true
	m.abortAsLeaving()
	if _, err := m.put(m.keys.left(m.slot), nil); err == nil {
		m.removeAll()
	}
}

// abortAsLeaving aborts an undecided change, unless this rank has arrived.
func (m *Member) abortAsLeaving() {
	m.mu.Lock()
	c := m.change
	m.mu.Unlock()
	if !c.seen || c.state != idle && c.state != armed && c.state != promised && c.state != withdrawn {
		return
	}
	ctx, end := m.op()
	defer end()
	if m.cfg.Store.Move(ctx, m.keys.token(c.k, c.Tag),
		m.keys.decisions()+"/"+Decision{Abort: Leaving, By: m.slot}.name(c.k)) == nil {
		_ = m.cfg.Store.Remove(ctx, m.keys.open(c.k)) // a leftover only takes space
	}
}

// retireAll retires every snapshot but the one in force.
func (m *Member) retireAll() {
	m.mu.Lock()
	m.dropStaged()
	for _, p := range m.versions.past {
		m.retired.add(p.snapshot)
	}
	m.versions.past = nil
	m.mu.Unlock()
	m.retireOld()
}
