package agree

// Close ends the member, within about a second even if the store hangs. Slow
// must not be called any more; a call of it that waits fails. The snapshot in
// force is the caller's from now on.
func (m *Member) Close() {
	m.lock()
	m.leaving = true
	if m.waiting && m.failed == nil {
		m.fail(ErrClosed)
	}
	if m.cancelOp != nil {
		m.cancelOp()
	}
	m.poke()
	isStatic := m.state == static
	m.unlock()
	if !isStatic {
		rings, stop := alarm(m.cfg.Clock, leaveLimit)
		select {
		case <-m.done:
		case <-rings:
		}
		stop()
		m.cfg.Poller.remove(m)
	}
	m.stop()
	<-m.done
	m.retireAll()
	m.flush()
}

// leave spares the other ranks the wait for one that will never come, and tells
// people that this rank is not to be waited for. Both are courtesies, tried once: no
// member needs them.
func (m *Member) leave() {
	m.urgent = true
	m.forbid()
	ctx, end := m.op()
	defer end()
	m.cfg.Store.PutOnce(ctx, m.keys.left(m.slot), nil)
}

// forbid aborts a change for which this rank will never stand.
func (m *Member) forbid() {
	m.lock()
	undecided := m.change.seen && (m.state == idle || m.state == armed || m.state == promised || m.state == late)
	k, c := m.k, m.change
	m.unlock()
	if !undecided {
		return
	}
	ctx, end := m.op()
	defer end()
	m.cfg.Store.Move(ctx, m.keys.token(k, c.Tag), m.keys.decisions()+"/"+Decision{Abort: Leaving, By: m.slot}.name(k))
}

// retireAll gives back every snapshot but the one in force.
func (m *Member) retireAll() {
	m.lock()
	if m.change.staged {
		m.retired = append(m.retired, m.change.snapshot)
		m.change.staged = false
	}
	for _, f := range m.follow {
		m.retired = append(m.retired, f.snapshot)
	}
	m.follow = nil
	m.unlock()
	m.handOver()
}
