package agree

import (
	"errors"
	"time"
)

// forever is the wait of a background that only a wake-up concerns.
const forever = time.Duration(1<<63 - 1)

// run is the background: it looks at the state, does at most a few store
// operations, and sleeps until it is woken or it is time to look again.
func (m *Member) run() {
	defer close(m.done)
	defer m.flush()
	for m.ctx.Err() == nil {
		if m.isLeaving() {
			m.leave()
			return
		}
		wait := m.step()
		m.flush()
		m.handOver()
		m.removeSpent()
		if wait > 0 {
			m.sleep(wait)
		}
		// The next step sees all that anyone wanted it to see.
		select {
		case <-m.wake:
		default:
		}
	}
}

// sleep ends at the latest after wait, and soon after the main thread has made a move.
func (m *Member) sleep(wait time.Duration) {
	for m.isReady() && wait > 0 {
		part := min(wait, m.cfg.Timing.ActivePoll/looksAtMove)
		if m.isWoken(part) {
			return
		}
		wait -= part
	}
	if wait > 0 {
		m.isWoken(wait)
	}
}

// looksAtMove is how often the background looks whether a move was made in the time
// between two looks at the store.
const looksAtMove = 5

// isWoken waits and reports whether something ended that before its time.
func (m *Member) isWoken(wait time.Duration) bool {
	var rings <-chan struct{}
	if wait < forever {
		var stop func() bool
		rings, stop = alarm(m.cfg.Clock, wait)
		defer stop()
	}
	select {
	case <-m.wake:
		return true
	case <-rings:
		return false
	case <-m.ctx.Done():
		return true
	}
}

// step does what the state asks for and returns when to look again.
func (m *Member) step() time.Duration {
	m.lock()
	s, c := m.state, m.change
	failed := m.failed != nil
	m.unlock()
	count := m.cfg.Counter.Seq.Load()
	now := m.cfg.Clock.Now()
	m.rate.sample(now, count)
	if count != m.calls {
		m.calls, m.callsAt = count, now
	}
	if failed {
		return forever
	}
	m.urgent = s == standing
	switch s {
	case idle:
		return m.stepIdle()
	case armed:
		return m.stepArmed(c, count)
	case late:
		return m.decide(Decision{Abort: c.why, Calls: count})
	case promised:
		return m.stepPromised(c, count)
	case standing:
		return m.stepStanding(c)
	}
	return forever // Slow does what is left
}

func (m *Member) stepIdle() time.Duration {
	m.lock()
	k, seen, c := m.k, m.change.seen, m.change
	m.unlock()
	switch {
	case seen:
		return m.take(c)
	case m.cfg.Poller.proposed(m.keys, k):
		return m.fetch(k)
	}
	return min(m.propose(k), m.cfg.Timing.IdlePoll)
}

func (m *Member) stepArmed(c change, count uint64) time.Duration {
	if count > c.Check {
		m.lock()
		if m.state == armed {
			m.abstain(Late)
		}
		m.unlock()
		return 0
	}
	if c.mine && m.superseded(c) {
		return m.decide(Decision{Abort: Superseded})
	}
	wait := m.look()
	if wait > 0 && m.cfg.Clock.Now()-c.since > m.settle() {
		wait = max(wait, m.cfg.Timing.IdlePoll)
	}
	if m.isSilent() {
		m.rest()
	}
	return wait
}

// isSilent reports that the communicator makes no calls at the moment.
func (m *Member) isSilent() bool { return m.cfg.Clock.Now()-m.callsAt > m.settle() }

// stepPromised tells the others that this rank is prepared. That binds nobody, but the
// proposer finds out here whether it is worth while for the ranks to wait for each other.
func (m *Member) stepPromised(c change, count uint64) time.Duration {
	switch {
	case c.mine && m.superseded(c):
		return m.decide(Decision{Abort: Superseded})
	case c.mine && !c.ready && count > c.Check+(c.Switch-c.Check)*3/4:
		return m.decide(Decision{Abort: Slow})
	case !c.acked && !m.acknowledge(c):
		return m.look()
	case c.mine && !c.ready:
		m.lock()
		k, hash := m.k, m.hash
		m.unlock()
		verdict, ok := m.count(m.keys.acks(k), hash)
		if ok && !verdict.Commit {
			return m.decide(verdict)
		}
		m.lock()
		m.change.ready = ok
		m.unlock()
	}
	wait := m.look()
	if wait > 0 && m.isSilent() {
		wait = m.cfg.Timing.IdlePoll
	}
	return wait
}

// acknowledge says that this rank has the version and has promised.
func (m *Member) acknowledge(c change) bool {
	m.lock()
	k, hash := m.k, m.hash
	m.unlock()
	ctx, end := m.op()
	_, err := m.put(ctx, m.keys.ack(k, hash, m.slot), nil)
	end()
	if err != nil {
		return false
	}
	m.lock()
	m.change.acked = true
	m.unlock()
	return true
}

// count looks at the ranks' records in dir and says what they amount to; ok is false
// while some are missing.
func (m *Member) count(dir string, hash uint64) (verdict Decision, ok bool) {
	ctx, end := m.op()
	names, err := m.cfg.Store.List(ctx, dir)
	end()
	if err != nil {
		return Decision{}, false
	}
	agreed := make(map[int]bool, m.cfg.Ranks)
	for _, name := range names {
		slots, theirs, ok := parseAckName(name)
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

// look asks for the decision of change k.
func (m *Member) look() time.Duration {
	if found, err := m.readDecision(); err == nil && found {
		return 0
	}
	return m.retry()
}

// retry is when to look at the store again.
func (m *Member) retry() time.Duration {
	if m.urgent && m.hurried {
		return m.cfg.Timing.MeetPoll
	}
	return m.cfg.Timing.ActivePoll
}

// decide makes a decision of change k, unless there is one, and obeys the one that
// stands. It moves the proposal's token rather than put a record: should somebody remove
// records, a decision that was made cannot be made again.
func (m *Member) decide(d Decision) time.Duration {
	d.By = m.slot
	m.lock()
	k, c := m.k, m.change
	m.unlock()
	if d.Detail != "" {
		ctx, end := m.op()
		m.put(ctx, m.keys.detail(k), []byte(d.Detail)) // a courtesy
		end()
	}
	ctx, end := m.op()
	err := m.cfg.Store.Move(ctx, m.keys.token(k, c.Tag), m.keys.decisions()+"/"+d.name(k))
	end()
	found, lookErr := m.readDecision()
	switch {
	case lookErr == nil && found:
		return 0
	case lookErr == nil && errors.Is(err, ErrNoRecord):
		m.miss()
	}
	return m.retry()
}

// readDecision looks for the decision of change k, and obeys it. A rank that may have
// been counted as standing obeys only what was this proposal's token.
func (m *Member) readDecision() (found bool, err error) {
	m.lock()
	k, c, counted := m.k, m.change, m.state == standing && m.meeting.attempted
	m.unlock()
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
		m.learn(d, counted)
		return true, nil
	}
	return false, nil
}

// handOver tells of the snapshots that have come into force and of those that have
// done their work.
func (m *Member) handOver() {
	m.lock()
	begun, old := m.begun, m.retired
	m.begun, m.retired = nil, nil
	m.unlock()
	for _, snapshot := range begun {
		snapshot.Begin()
	}
	for _, snapshot := range old {
		snapshot.Retire()
	}
}

// removeSpent removes this rank's records that nobody looks for again, once and
// without regard to success: they only take up room.
func (m *Member) removeSpent() {
	m.lock()
	spent := m.spent
	m.spent = nil
	m.unlock()
	for _, key := range spent {
		ctx, end := m.op()
		m.cfg.Store.Remove(ctx, key)
		end()
	}
}

func (m *Member) isLeaving() bool {
	m.lock()
	defer m.unlock()
	return m.leaving
}

func (m *Member) superseded(c change) bool {
	m.lock()
	defer m.unlock()
	return m.wish != nil && m.wish.Meaning != c.Meaning
}
