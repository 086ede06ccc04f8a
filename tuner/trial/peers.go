package trial

import (
	"slices"
	"sync"
	"time"
)

// Peers are the communicators of a process whose versions are compared, by this rank or another. One
// communicator may see each microbatch as a step, another a whole batch. So all comparisons of the process
// use the longest pace. The zero value is ready.
type Peers struct {
	mu  sync.Mutex
	all []*Peer
}

// A Peer is one of these communicators.
type Peer struct {
	standing func() (meaning string, calls uint64)
	pace     pace // while it compares, and knows
}

// pace is the time that the steps of a block take, and a change.
type pace struct{ steps, change time.Duration }

// Add adds a communicator until remove. standing returns the effect digest of the version in force and
// the number of calls made so far; any goroutine may call it.
func (p *Peers) Add(standing func() (meaning string, calls uint64)) (one *Peer, remove func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one = &Peer{standing: standing}
	p.all = append(p.all, one)
	return one, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all = slices.DeleteFunc(p.all, func(o *Peer) bool { return o == one })
	}
}

// setPace notes a communicator's pace; the zero pace forgets it.
func (p *Peers) setPace(of *Peer, to pace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of.pace = to
}

func (p *Peers) longest() (most pace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.all {
		most.steps, most.change = max(most.steps, one.pace.steps), max(most.change, one.pace.change)
	}
	return most
}

// standing is what is in force on a communicator, and how many calls it has made.
type standing struct {
	peer    *Peer
	meaning string
	calls   uint64
}

// others are all communicators but one.
func (p *Peers) others(but *Peer) (all []standing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.all {
		if one != but {
			meaning, calls := one.standing()
			all = append(all, standing{one, meaning, calls})
		}
	}
	return all
}
