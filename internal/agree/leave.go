package agree

import "context"

// EndWait begins to end the member. A waiting AtTrigger fails with ErrClosed, and so does each later call of
// it. Close must follow once AtTrigger has returned.
func (m *Member) EndWait() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.leaving = true
	switch {
	case m.failed != nil:
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
	m.flushLog()
}

// leave aborts change c, which would wait for this rank, and puts the record that this rank
// has left. The last one removes the communicator's records. All is tried once, because no member
// needs it: the other ranks' waits are bounded.
func (m *Member) leave(c change) {
	m.background.urgent = true
	if c.seen && (c.state == idle || c.state == armed || c.state == promised || c.state == withdrawn) {
		ctx, end := m.op()
		abort := m.keys.decision(c.k, Decision{Abort: Leaving, By: m.slot})
		if m.cfg.Store.Move(ctx, m.keys.token(c.k, c.Tag), abort) == nil {
			_ = m.cfg.Store.Remove(ctx, m.keys.open(c.k)) // a leftover only takes space
		}
		end()
	}
	if _, err := m.put(m.keys.left(m.slot), nil); err == nil {
		m.removeAll()
	}
}

// removeHistory removes the records of changes before k, once all ranks have acknowledged k: no
// rank needs them any more. The change that brought the version in force stays, for tools, and the first, by which a
// duplicate learns that there was one.
func (m *Member) removeHistory(k uint64) {
	if k < 2 {
		return
	}
	decisions, err := m.list(m.keys.dir(kindDecision))
	if err != nil {
		return
	}
	m.mu.Lock()
	inForce := m.inForce.change
	m.mu.Unlock()
	for _, key := range decisions {
		of := key.number
		if of >= k || of == inForce || of == 1 {
			continue
		}
		// What is not removed now only takes space until the communicator ends.
		for _, dir := range []kind{kindAck, kindArrival, kindContent, kindToken} {
			m.obsolete.add(m.keys.of(dir, of))
		}
		m.obsolete.add(key.text, m.keys.proposal(of))
		if d, _ := key.decision(); d.Abort == CannotStage {
			m.obsolete.add(m.keys.detail(of))
		}
	}
}

// mayEnd reports whether no duplicate has joined, and from then on none ever will.
func (m *Member) mayEnd() bool {
	stands, err := m.put(m.keys.proposal(1), encode(Proposal{}))
	first, err2 := decode[Proposal](stands)
	return err == nil && err2 == nil && !first.Freeze
}

// removeAll removes the records of a communicator if this rank is the last to leave. The record ended stays, so
// that a new communicator of the same id does not take the leftovers for its own. A late removal hits no later
// communicator, because the keys are never used again.
func (m *Member) removeAll() {
	left, err := m.list(m.keys.dir(kindLeft))
	if err != nil || len(left) < m.cfg.Ranks || !m.mayEnd() {
		return
	}
	if _, err := m.put(m.keys.ended(), nil); err != nil {
		return
	}
	for _, dir := range []kind{kindProposal, kindOpen} {
		all, err := m.list(string(dir))
		if err != nil {
			return
		}
		for _, key := range all {
			if key.Comm == string(m.keys) {
				m.obsolete.add(m.keys.open(key.number), m.keys.proposal(key.number))
			}
		}
	}
	// The slots go first: a tool that sees what is left must not take a rank for one that lives.
	m.obsolete.add(m.keys.dir(kindSlot), m.keys.all())
	m.removeObsolete()
}
