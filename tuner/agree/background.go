package agree

import (
	"context"
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
		m.forgetAcks()
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
	switch s {
	case idle:
		return m.stepIdle()
	case armed:
		return m.stepArmed(c, count)
	case late:
		return m.decide(Decision{Abort: Late, Calls: count})
	case promised:
		return m.stepPromised(c, count)
	case committed:
		return m.stepCommitted()
	}
	return forever // frozen and static: Slow does what is left
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
			m.tooLate()
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

// stepCommitted waits for the main thread to come to S.
func (m *Member) stepCommitted() time.Duration {
	if m.isSilent() {
		m.rest()
		return forever
	}
	return m.cfg.Timing.ActivePoll
}

// isSilent reports that the communicator makes no calls at the moment.
func (m *Member) isSilent() bool { return m.cfg.Clock.Now()-m.callsAt > m.settle() }

func (m *Member) stepPromised(c change, count uint64) time.Duration {
	if m.isWaiting() {
		return m.decide(Decision{Abort: Stall})
	}
	if c.mine && m.superseded(c) {
		return m.decide(Decision{Abort: Superseded})
	}
	if c.mine && count > c.Check+(c.Switch-c.Check)*3/4 {
		return m.decide(Decision{Abort: Slow})
	}
	if !c.acked && !m.acknowledge(c) {
		return m.look()
	}
	if c.mine {
		if verdict, ok := m.count(c); ok {
			return m.decide(verdict)
		}
	}
	return m.look()
}

// acknowledge tells the others of the promise. The promise binds whether or not
// this succeeds, since a put that failed may land later.
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

// count looks at the acknowledgements of this rank's proposal and says what they
// amount to; ok is false while some are missing.
func (m *Member) count(c change) (verdict Decision, ok bool) {
	m.lock()
	k, hash := m.k, m.hash
	m.unlock()
	ctx, end := m.op()
	names, err := m.cfg.Store.List(ctx, m.keys.acks(k))
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
			return Decision{Abort: Misaligned, Frozen: true}, true
		}
		for _, slot := range slots {
			agreed[slot] = slot < m.cfg.Ranks
		}
	}
	return Decision{Commit: true}, len(agreed) == m.cfg.Ranks
}

// look asks for the decision of change k.
func (m *Member) look() time.Duration {
	ctx, end := m.op()
	d, found, err := m.readDecision(ctx)
	end()
	if err == nil && found {
		m.learn(d)
		return 0
	}
	return m.cfg.Timing.ActivePoll
}

// decide puts a decision for change k and obeys the one that stands.
func (m *Member) decide(d Decision) time.Duration {
	d.By = m.slot
	m.lock()
	k := m.k
	m.unlock()
	// Only an operation that the main thread waits for must not be cut short.
	ctx, end := m.operation(d.Abort == Stall)
	stands, err := m.put(ctx, m.keys.decision(k), encode(d))
	end()
	if err != nil {
		return m.cfg.Timing.ActivePoll
	}
	winner, err := decode[Decision](stands)
	if err != nil {
		return m.cfg.Timing.ActivePoll // it exists, and is read again
	}
	m.learn(winner)
	return 0
}

func (m *Member) readDecision(ctx context.Context) (d Decision, found bool, err error) {
	m.lock()
	k := m.k
	m.unlock()
	text, found, err := m.cfg.Store.Get(ctx, m.keys.decision(k))
	if err != nil || !found {
		return d, false, err
	}
	d, err = decode[Decision](text)
	return d, true, err
}

// handOver tells of the snapshots that have come into force and of those that have
// done their work.
func (m *Member) handOver() {
	m.lock()
	begun, old := m.begun, m.retired
	m.begun, m.retired = nil, nil
	m.unlock()
	if m.cfg.Begin != nil {
		for _, snapshot := range begun {
			m.cfg.Begin(snapshot)
		}
	}
	if m.cfg.Retire != nil {
		for _, snapshot := range old {
			m.cfg.Retire(snapshot)
		}
	}
}

// forgetAcks removes this rank's acknowledgements of decided changes, once and
// without regard to success: they only take up room.
func (m *Member) forgetAcks() {
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

func (m *Member) isWaiting() bool {
	m.lock()
	defer m.unlock()
	return m.waiting
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
