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

// setPace notes a communicator's pace; the zero pace forgets it. It returns the longest of all.
func (p *Peers) setPace(of *Peer, to pace) (most pace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of.pace = to
	for _, one := range p.all {
		most.steps, most.change = max(most.steps, one.pace.steps), max(most.change, one.pace.change)
	}
	return most
}

// A job's communicators change sides together, and a step waits for all of them. When one ends its
// comparison, another that goes on alone finds less difference than there is. So a comparison also
// ends when another communicator of the process has taken turns and has stopped doing so.

// follower watches the others of the process during one comparison.
type follower map[*Peer]*turns

// turns are how often another communicator has changed from side to side since it was first seen.
type turns struct {
	side    int // -1: neither
	n       int
	at      time.Time // of the latest
	from    uint64    // its calls then
	longest uint64    // calls between two
}

// Another communicator has ended its comparison when all of this holds:
//   - It has taken minTurns turns: the first may be the edit that began the comparison.
//   - One version has stood there for more than so many blocks. While turns are taken, it is two at most.
//   - It has made twice as many calls by that version as in its longest turn: one with few calls
//     changes late, one without calls never.
const (
	stands   = 4
	minTurns = 2
)

// ended returns the side on which another communicator has ended its comparison of these two.
func (f follower) ended(now time.Time, block time.Duration, sides [2]Variant, p *Peers, self *Peer) (on Side, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.all {
		if one == self {
			continue
		}
		meaning, calls := one.standing()
		side := slices.IndexFunc(sides[:], func(v Variant) bool { return v.EffectDigest() == meaning })
		o := f[one]
		if o == nil {
			o = &turns{side: side, at: now, from: calls}
			f[one] = o
		}
		if side >= 0 && o.side == 1-side {
			if o.n > 0 {
				o.longest = max(o.longest, calls-o.from)
			}
			o.n, o.at, o.from = o.n+1, now, calls
		}
		o.side = side
		if side >= 0 && o.n >= minTurns && now.Sub(o.at) > stands*block && calls-o.from > 2*o.longest {
			return Side(side), true
		}
	}
	return 0, false
}
