package agree

import (
	"errors"
	"time"
)

// forever is the wait of a background that has nothing to do until it is woken.
const forever = time.Duration(1<<63 - 1)

// run is the background. Each step looks at the state and does a few store operations.
// Then run sleeps until it is woken or it is time for the next step.
func (m *Member) run() {
	defer close(m.done)
	defer m.flushLog()
	for m.ctx.Err() == nil {
		if m.isLeaving() {
			m.leave()
			return
		}
		wait := m.step()
		m.flushLog()
		m.retireOld()
		m.removeObsolete()
		m.sleep(wait)
		// The next step sees whatever it was woken for.
		select {
		case <-m.wake:
		default:
		}
	}
}

// sleep ends at the latest after wait.
func (m *Member) sleep(wait time.Duration) {
	if wait <= 0 {
		return
	}
	var fired <-chan struct{}
	if wait < forever {
		var stop func() bool
		fired, stop = newTimer(m.cfg.Clock, wait)
		defer stop()
	}
	select {
	case <-m.wake:
	case <-fired:
	case <-m.ctx.Done():
	}
}

// step does what the state asks for and returns when to look again.
func (m *Member) step() time.Duration {
	m.mu.Lock()
	s, c := m.state, m.change
	failed := m.failed != nil
	m.mu.Unlock()
	count := m.cfg.Counter.Seq.Load()
	now := m.cfg.Clock.Now()
	m.rate.sample(now, count)
	if count != m.calls {
		m.calls, m.callsAt = count, now
	}
	if failed {
		return forever
	}
	m.urgent = s == arrived
	switch s {
	case idle:
		return m.stepIdle()
	case armed:
		return m.stepArmed(c, count)
	case withdrawn:
		return m.decide(Decision{Abort: c.why, Calls: count})
	case promised:
		return m.stepPromised(c, count)
	case arrived:
		return m.stepArrived(c)
	}
	return forever // AtTrigger does what is left
}

func (m *Member) stepIdle() time.Duration {
	m.mu.Lock()
	k, seen, c := m.k, m.change.seen, m.change
	m.mu.Unlock()
	switch {
	case seen:
		return m.stageProposal(c)
	case m.cfg.Poller.proposed(m.keys, k):
		return m.fetch(k)
	}
	return min(m.propose(k), m.cfg.Timing.IdlePoll)
}

func (m *Member) stepArmed(c change, count uint64) time.Duration {
	if count > c.Check {
		m.mu.Lock()
		if m.state == armed {
			m.withdraw(Late)
		}
		m.mu.Unlock()
		return 0
	}
	if c.mine && m.superseded(c) {
		return m.decide(Decision{Abort: Superseded})
	}
	wait := m.pollDecision()
	if wait > 0 && m.cfg.Clock.Now()-c.since > m.settle() {
		wait = max(wait, m.cfg.Timing.IdlePoll)
	}
	return wait
}

// stepPromised puts the ack. That binds nobody, but from the acks the proposer learns whether
// the ranks should wait for each other at all.
func (m *Member) stepPromised(c change, count uint64) time.Duration {
	switch {
	case c.mine && m.superseded(c):
		return m.decide(Decision{Abort: Superseded})
	case c.mine && !c.allAcked && count > c.Check+(c.Switch-c.Check)*3/4:
		return m.decide(Decision{Abort: Slow})
	case !c.acked && !m.acknowledge():
		return m.pollDecision()
	case c.mine && !c.allAcked:
		m.mu.Lock()
		k, hash := m.k, m.hash
		m.mu.Unlock()
		verdict, ok := m.countReports(m.keys.acks(k), hash)
		if ok && !verdict.Commit {
			return m.decide(verdict)
		}
		m.mu.Lock()
		m.change.allAcked = ok
		m.mu.Unlock()
		if ok {
			m.removeHistory(k)
		}
	}
	wait := m.pollDecision()
	if wait > 0 && m.cfg.Clock.Now()-m.callsAt > m.settle() {
		wait = m.cfg.Timing.IdlePoll // a communicator that makes no calls may do so for hours
	}
	return wait
}

// acknowledge puts the record that this rank has staged the version and has promised.
func (m *Member) acknowledge() bool {
	m.mu.Lock()
	k, hash := m.k, m.hash
	m.mu.Unlock()
	if _, err := m.put(m.keys.ack(k, hash, m.slot), nil); err != nil {
		return false
	}
	m.mu.Lock()
	m.change.acked = true
	m.mu.Unlock()
	return true
}

// countReports compares the ranks' reports in dir with this rank's hash and returns the
// decision that follows; ok is false while some are missing.
func (m *Member) countReports(dir string, hash uint64) (verdict Decision, ok bool) {
	names, err := m.list(dir)
	if err != nil {
		return Decision{}, false
	}
	agreed := make(map[int]bool, m.cfg.Ranks)
	for _, name := range names {
		slots, theirs, ok := parseReportName(name)
		if !ok {
			continue
		}
		if theirs != hash {
			return Decision{Abort: Misaligned}, true
		}
		for _, slot := range slots {
			if slot < m.cfg.Ranks {
				agreed[slot] = true
			}
		}
	}
	return Decision{Commit: true}, len(agreed) == m.cfg.Ranks
}

// pollDecision reads the decision of change k and returns when to poll again.
func (m *Member) pollDecision() time.Duration {
	if found, err := m.readDecision(); err == nil && found {
		return 0
	}
	return m.retry()
}

// retry is the time until the next poll of a change that is under way.
func (m *Member) retry() time.Duration {
	if m.urgent && m.pollsFast {
		return m.cfg.Timing.BarrierPoll
	}
	return m.cfg.Timing.ActivePoll
}

// decide makes a decision of change k, unless there is one, and obeys the one that there
// is. It moves the proposal's token instead of putting a record, so that a decision which
// was made cannot be made again, even if somebody removes records.
func (m *Member) decide(d Decision) time.Duration {
	d.By = m.slot
	m.mu.Lock()
	k, c := m.k, m.change
	m.mu.Unlock()
	if d.Detail != "" {
		_, _ = m.put(m.keys.detail(k), []byte(d.Detail)) // for the log only
	}
	ctx, end := m.op()
	err := m.cfg.Store.Move(ctx, m.keys.token(k, c.Tag), m.keys.decisions()+"/"+d.name(k))
	end()
	if err == nil {
		m.mu.Lock()
		m.obsolete = append(m.obsolete, m.keys.open(k))
		m.mu.Unlock()
	}
	found, lookErr := m.readDecision()
	switch {
	case lookErr == nil && found:
		return 0
	case lookErr == nil && errors.Is(err, ErrNoRecord):
		m.missToken()
	}
	return m.retry()
}

// readDecision reads the decision of change k, and obeys it. A rank that may have been
// counted as arrived obeys only a decision made of this proposal's token.
func (m *Member) readDecision() (found bool, err error) {
	m.mu.Lock()
	k, c, counted := m.k, m.change, m.state == arrived && m.arrival.attempted
	m.mu.Unlock()
	ctx, end := m.op()
	defer end()
	names, err := m.cfg.Store.List(ctx, m.keys.decisions())
	if err != nil {
		return false, err
	}
	for _, name := range names {
		of, d, ok := parseDecision(name)
		if !ok || of != k {
			continue
		}
		if counted {
			if mark, err := m.cfg.Store.Mark(ctx, m.keys.decisions()+"/"+name); err != nil || mark != c.Token {
				continue
			}
		}
		if d.Abort == CannotStage {
			detail, _, _ := m.cfg.Store.Get(ctx, m.keys.detail(k))
			d.Detail = string(detail)
		}
		m.obey(d, counted)
		return true, nil
	}
	return false, nil
}

// retireOld tells snapshots that they are no longer needed.
func (m *Member) retireOld() {
	m.mu.Lock()
	old := m.retired
	m.retired = nil
	m.mu.Unlock()
	for _, snapshot := range old {
		snapshot.Retire()
	}
}

// removeObsolete removes this rank's records that nobody reads again. It tries once, since
// they only take up space.
func (m *Member) removeObsolete() {
	m.mu.Lock()
	obsolete := m.obsolete
	m.obsolete = nil
	m.mu.Unlock()
	for _, key := range obsolete {
		ctx, end := m.op()
		_ = m.cfg.Store.Remove(ctx, key) // what stays takes room only
		end()
	}
}

func (m *Member) isLeaving() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leaving
}

func (m *Member) superseded(c change) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pending != nil && m.pending.Meaning != c.Meaning
}
