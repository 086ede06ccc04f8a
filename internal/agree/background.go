package agree

import (
	"errors"
	"time"
)

// background is what the member's goroutine keeps for itself. No other goroutine touches it.
type background struct {
	rate    rate
	calls   uint64        // decided, as last seen
	callsAt time.Duration // when they last increased

	urgent    bool // the main thread waits for what this step does
	pollsFast bool // it has not waited for long yet
	progress  progress

	tries     int             // proposals made
	full      bool            // all slots are claimed
	saidEmpty bool            // it was logged that slots are missing
	advised   map[Reason]bool // what was logged with advice
	forgets   bool            // the history record allows to remove decided changes
}

// progress is what the background has done for change k, from acceptProposal on.
type progress struct {
	since     time.Duration // when the proposal was seen
	missed    time.Duration // since when the token is gone without a decision; 0: it is not
	announced bool          // the own proposal: the others can find it
	acked     bool          // the ack has landed
	allAcked  bool          // the own proposal: the acks of all ranks are there, with equal hashes
	vetoed    bool          // and logged so
	doubted   bool          // arrived: it was logged that records have vanished
}

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
		if wait > 0 {
			sleep(m.ctx, m.cfg.Clock, wait, m.wake)
		}
		// The next step sees whatever it was woken for.
		select {
		case <-m.wake:
		default:
		}
	}
}

// step does what the state asks for and returns when to look again.
func (m *Member) step() time.Duration {
	m.mu.Lock()
	c, failed := m.change, m.ending.failed != nil
	m.mu.Unlock()
	b, count, now := &m.background, m.cfg.Counter.Seq.Load(), m.cfg.Clock.Now()
	b.rate.sample(now, count)
	if count != b.calls {
		b.calls, b.callsAt = count, now
	}
	if failed {
		return forever
	}
	b.urgent = c.state == arrived
	switch c.state {
	case idle:
		return m.stepIdle(c)
	case armed:
		return m.stepArmed(c, count)
	case withdrawn:
		return m.decide(c, Decision{Abort: c.why, Calls: count})
	case promised:
		return m.stepPromised(c, count)
	case arrived:
		return m.stepArrived(c)
	}
	return forever // AtTrigger does what is left
}

func (m *Member) stepIdle(c change) time.Duration {
	switch {
	case c.seen:
		return m.stageProposal(c)
	case m.newest.Load() >= c.k:
		return m.fetch(c.k)
	}
	return min(m.propose(c.k), m.cfg.Timing.IdlePoll)
}

func (m *Member) stepArmed(c change, count uint64) time.Duration {
	if count > c.Check {
		m.mu.Lock()
		if m.change.state == armed {
			m.withdraw(Late)
		}
		m.mu.Unlock()
		return 0
	}
	if c.mine && m.superseded(c) {
		return m.decide(c, Decision{Abort: Superseded})
	}
	wait := m.pollDecision(c)
	if wait > 0 && m.cfg.Clock.Now()-m.background.progress.since > m.settle() {
		wait = max(wait, m.cfg.Timing.IdlePoll)
	}
	return wait
}

// stepPromised puts the ack. That binds nobody, but from the acks the proposer learns whether
// the ranks should wait for each other at all.
func (m *Member) stepPromised(c change, count uint64) time.Duration {
	progress := &m.background.progress
	switch {
	case c.mine && m.superseded(c):
		return m.decide(c, Decision{Abort: Superseded})
	case c.mine && !progress.allAcked && count > c.Check+(c.Switch-c.Check)*3/4:
		return m.decide(c, Decision{Abort: Slow})
	case !progress.acked:
		_, err := m.put(m.keys.ack(c.k, c.hash, m.slot), nil)
		if progress.acked = err == nil; err != nil {
			return m.pollDecision(c)
		}
	}
	if c.mine && !progress.allAcked {
		verdict, ok := m.countReports(m.keys.acks(c.k), c.hash)
		if ok && !verdict.Commit {
			return m.decide(c, verdict)
		}
		if progress.allAcked = ok; ok {
			m.removeHistory(c.k)
		}
	}
	wait := m.pollDecision(c)
	if wait > 0 && m.cfg.Clock.Now()-m.background.callsAt > m.settle() {
		wait = m.cfg.Timing.IdlePoll // a communicator that makes no calls may do so for hours
	}
	return wait
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
func (m *Member) pollDecision(c change) time.Duration {
	if found, err := m.readDecision(c); err == nil && found {
		return 0
	}
	return m.retry()
}

// retry is the time until the next poll of a change that is under way.
func (m *Member) retry() time.Duration {
	if m.background.urgent && m.background.pollsFast {
		return m.cfg.Timing.BarrierPoll
	}
	return m.cfg.Timing.ActivePoll
}

// decide makes a decision of change k, unless there is one, and obeys the one that there
// is. It moves the proposal's token instead of putting a record, so that a decision which
// was made cannot be made again, even if somebody removes records.
func (m *Member) decide(c change, d Decision) time.Duration {
	d.By = m.slot
	if d.Detail != "" {
		_, _ = m.put(m.keys.detail(c.k), []byte(d.Detail)) // for the log only
	}
	ctx, end := m.op()
	err := m.cfg.Store.Move(ctx, m.keys.token(c.k, c.Tag), m.keys.decisions()+"/"+d.name(c.k))
	end()
	if err == nil {
		m.obsolete.add(m.keys.open(c.k))
	}
	found, lookErr := m.readDecision(c)
	switch {
	case lookErr == nil && found:
		return 0
	case lookErr == nil && errors.Is(err, ErrNoRecord):
		m.missToken(c)
	}
	return m.retry()
}

// readDecision reads the decision of change k, and obeys it. A rank that may have been
// counted as arrived obeys only a decision made of this proposal's token.
func (m *Member) readDecision(c change) (found bool, err error) {
	counted := m.isCounted()
	ctx, end := m.op()
	defer end()
	names, err := m.cfg.Store.List(ctx, m.keys.decisions())
	if err != nil {
		return false, err
	}
	for _, name := range names {
		of, d, ok := parseDecision(name)
		if !ok || of != c.k {
			continue
		}
		if counted {
			if mark, err := m.cfg.Store.Mark(ctx, m.keys.decisions()+"/"+name); err != nil || mark != c.Token {
				continue
			}
		}
		if d.Abort == CannotStage {
			detail, _, _ := m.cfg.Store.Get(ctx, m.keys.detail(c.k))
			d.Detail = string(detail)
		}
		m.applyDecision(c.k, d, counted)
		return true, nil
	}
	return false, nil
}

// isCounted reports that the others may have counted this rank as arrived.
func (m *Member) isCounted() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.change.state == arrived && m.change.arrival.attempted
}

func (m *Member) isLeaving() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ending.leaving
}

func (m *Member) superseded(c change) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.versions.pending != nil && m.versions.pending.Meaning != c.Meaning
}
