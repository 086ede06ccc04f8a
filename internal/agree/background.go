package agree

// The background of a Member, one goroutine from Join to Close. Of a member that has joined, it alone uses the store:
// it reads proposals, stages versions and puts the records of a vote, while the main thread decides calls. Between
// steps it polls, as seldom as the state of the change allows (timing.go). The Poller wakes it when there is a
// proposal.

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// run is the background. Each step looks at the state and does a few store operations.
// Then run sleeps until it is woken or it is time for the next step.
func (m *Member) run() {
	defer close(m.done)
	defer m.flushLog()
	for m.ctx.Err() == nil {
		m.mu.Lock()
		c, failed, leaving := m.change, m.failed != nil, m.leaving
		m.mu.Unlock()
		if leaving {
			m.leave(c)
			return
		}
		wait := forever
		if !failed {
			wait = m.step(c)
		}
		m.flushLog()
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
func (m *Member) step(c change) time.Duration {
	b, count, now := &m.background, m.cfg.Counter.Seq.Load(), m.cfg.Clock.Now()
	b.rate.sample(now, count, m.settle())
	if count != b.calls {
		b.calls, b.callsAt = count, now
	}
	b.urgent = c.state == arrived
	switch c.state {
	case idle:
		switch {
		case c.seen:
			return m.stageProposal(c)
		case m.newest.Load() >= c.k:
			return m.fetch(c.k)
		}
		return min(m.propose(c.k), m.cfg.Timing.IdlePoll)
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

func (m *Member) stepArmed(c change, count uint64) time.Duration {
	if count > c.Check {
		m.update(func(now *change) {
			if now.state == armed {
				m.withdraw(Late)
			}
		})
		return 0
	}
	if m.superseded(c) {
		return m.decide(c, Decision{Abort: Superseded})
	}
	wait := m.pollDecision(c)
	if wait > 0 && m.cfg.Clock.Now()-m.background.progress.since > m.settle() {
		wait = max(wait, m.cfg.Timing.IdlePoll)
	}
	return wait
}

// A Poller wakes the members of a process when there are new proposals. One listing of the undecided
// changes serves all communicators that share a store. The Poller's goroutine runs while it has
// members.
type Poller struct {
	store  Store
	clock  Clock
	timing Timing

	// ticks orders the calls that this process's main threads make while they look for the
	// barrier.
	ticks atomic.Uint64

	mu      sync.Mutex
	members map[*Member]bool
	stop    context.CancelFunc
	done    chan struct{}
}

// NewPoller returns a Poller for the members that use store.
func NewPoller(store Store, clock Clock, timing Timing) *Poller {
	return &Poller{store: store, clock: clock, timing: timing, members: map[*Member]bool{}}
}

func (p *Poller) add(m *Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members[m] = true
	if p.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		p.stop, p.done = stop, make(chan struct{})
		go p.run(ctx, p.done)
	}
}

// remove takes a member out. Without members nothing of the Poller runs once it returns.
func (p *Poller) remove(m *Member) {
	p.mu.Lock()
	delete(p.members, m)
	if len(p.members) > 0 || p.stop == nil {
		p.mu.Unlock()
		return
	}
	p.stop()
	done := p.done
	p.stop = nil
	p.mu.Unlock()
	<-done
}

// siblings returns the other members of m's communicator in this process.
func (p *Poller) siblings(m *Member) (all []*Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for other := range p.members {
		if other != m && other.keys == m.keys {
			all = append(all, other)
		}
	}
	slices.SortFunc(all, func(a, b *Member) int { return a.slot - b.slot })
	return all
}

func (p *Poller) run(ctx context.Context, done chan struct{}) {
	defer close(done)
	for ctx.Err() == nil {
		p.list(ctx)
		sleep(ctx, p.clock, p.timing.IdlePoll, nil)
	}
}

func (p *Poller) list(ctx context.Context) {
	ctx, end := withLimit(ctx, p.clock, p.timing.OpLimit)
	defer end()
	open, err := listKeys(ctx, p.store, string(kindOpen))
	if err != nil {
		return // the next listing may succeed; members log that the store is lost
	}
	newest := map[keys]uint64{}
	for _, key := range open {
		newest[keys(key.Comm)] = max(newest[keys(key.Comm)], key.number)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for m := range p.members {
		m.noteProposed(newest[m.keys])
	}
}
