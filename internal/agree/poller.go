package agree

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Poller wakes the members of a process when there are new proposals. One listing of the undecided
// changes serves all communicators that share a store. The Poller's goroutine runs while it has
// members.
type Poller struct {
	store Store
	clock Clock
	every time.Duration
	limit time.Duration // of one listing

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
	return &Poller{store: store, clock: clock, every: timing.IdlePoll, limit: timing.OpLimit,
		members: map[*Member]bool{}}
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
		sleep(ctx, p.clock, p.every, nil)
	}
}

func (p *Poller) list(ctx context.Context) {
	ctx, end := withLimit(ctx, p.clock, p.limit)
	defer end()
	names, err := p.store.List(ctx, undecided)
	if err != nil {
		return // the next listing may succeed; members log that the store is lost
	}
	newest := map[keys]uint64{}
	for _, name := range names {
		if comm, k, ok := parseProposalName(name); ok {
			newest[comm] = max(newest[comm], k)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for m := range p.members {
		m.noteProposed(newest[m.keys])
	}
}
