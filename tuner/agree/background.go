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
		m.retire()
		m.flush()
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

func (m *Member) sleep(wait time.Duration) {
	var rings <-chan struct{}
	if wait < forever {
		var stop func() bool
		rings, stop = alarm(m.cfg.Clock, wait)
		defer stop()
	}
	select {
	case <-m.wake:
	case <-rings:
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
	m.rate.sample(m.cfg.Clock.Now(), count)
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
	}
	return forever // committed, frozen and static: Slow does what is left
}

func (m *Member) stepIdle() time.Duration {
	m.mu.Lock()
	k, seen, c := m.k, m.change.seen, m.change
	m.mu.Unlock()
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
		m.mu.Lock()
		if m.state == armed {
			m.tooLate()
		}
		m.mu.Unlock()
		return 0
	}
	if c.mine && m.superseded(c) {
		return m.decide(Decision{Abort: Superseded})
	}
	wait := m.look()
	if wait > 0 && m.cfg.Clock.Now()-c.since > m.settle() {
		// A communicator that makes no calls for hours must not cost more than one
		// without a change. At c the main thread wakes the background.
		wait = max(wait, m.cfg.Timing.IdlePoll)
	}
	return wait
}

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
	m.mu.Lock()
	k, hash := m.k, m.hash
	m.mu.Unlock()
	ctx, end := m.op()
	_, err := m.put(ctx, m.keys.ack(k, hash, m.slot), nil)
	end()
	if err != nil {
		return false
	}
	m.mu.Lock()
	m.change.acked = true
	m.mu.Unlock()
	return true
}

// count looks at the acknowledgements of this rank's proposal and says what they
// amount to; ok is false while some are missing.
func (m *Member) count(c change) (verdict Decision, ok bool) {
	m.mu.Lock()
	k, hash := m.k, m.hash
	m.mu.Unlock()
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
	m.mu.Lock()
	k := m.k
	m.mu.Unlock()
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
	m.mu.Lock()
	k := m.k
	m.mu.Unlock()
	text, found, err := m.cfg.Store.Get(ctx, m.keys.decision(k))
	if err != nil || !found {
		return d, false, err
	}
	d, err = decode[Decision](text)
	return d, true, err
}

func (m *Member) retire() {
	m.mu.Lock()
	old := m.retired
	m.retired = nil
	m.mu.Unlock()
	if m.cfg.Retire == nil {
		return
	}
	for _, snapshot := range old {
		m.cfg.Retire(snapshot)
	}
}

// forgetAcks removes this rank's acknowledgements of decided changes, once and
// without regard to success: they only take up room.
func (m *Member) forgetAcks() {
	m.mu.Lock()
	spent := m.spent
	m.spent = nil
	m.mu.Unlock()
	for _, key := range spent {
		ctx, end := m.op()
		m.cfg.Store.Remove(ctx, key)
		end()
	}
}

func (m *Member) isWaiting() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waiting
}

func (m *Member) isLeaving() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.leaving
}

func (m *Member) superseded(c change) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wish != nil && m.wish.Meaning != c.Meaning
}
