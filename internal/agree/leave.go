package agree

// EndWait begins to end the member. A call of AtTrigger that waits fails with ErrClosed, and so
// does each later one. Close must follow, once AtTrigger has returned.
func (m *Member) EndWait() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leaving = true
	switch {
	case m.failed != nil:
	case m.waiting:
		m.fail(ErrClosed)
	default:
		m.failSilently(ErrClosed)
	}
	if m.cancelOp != nil {
		m.cancelOp()
	}
	m.wakeUp()
}

// Close ends the member, within about a second even if the store hangs. AtTrigger must not
// run, nor be called any more. The snapshot in force is the caller's from now on.
func (m *Member) Close() {
	m.EndWait()
	if !m.IsStatic() {
		fired, stop := newTimer(m.cfg.Clock, leaveLimit)
		select {
		case <-m.done:
		case <-fired:
		}
		stop()
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
	m.urgent = true
	m.abortAsLeaving()
	if _, err := m.put(m.keys.left(m.slot), nil); err == nil {
		m.removeAll()
	}
}

// abortAsLeaving aborts an undecided change, unless this rank has arrived.
func (m *Member) abortAsLeaving() {
	m.mu.Lock()
	undecided := m.change.seen && (m.state == idle || m.state == armed || m.state == promised || m.state == withdrawn)
	k, c := m.k, m.change
	m.mu.Unlock()
	if !undecided {
		return
	}
	ctx, end := m.op()
	defer end()
	if m.cfg.Store.Move(ctx, m.keys.token(k, c.Tag), m.keys.decisions()+"/"+Decision{Abort: Leaving, By: m.slot}.name(k)) == nil {
		_ = m.cfg.Store.Remove(ctx, m.keys.open(k)) // what stays takes room only
	}
}

// retireAll retires every snapshot but the one in force.
func (m *Member) retireAll() {
	m.mu.Lock()
	if m.change.staged {
		m.retired = append(m.retired, m.change.snapshot)
		m.change.staged = false
	}
	for _, p := range m.past {
		m.retired = append(m.retired, p.snapshot)
	}
	m.past = nil
	m.mu.Unlock()
	m.retireOld()
}
