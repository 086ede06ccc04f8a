package tuner

import (
	"slices"
	"sync"
	"time"
)

// paces are what the process's comparisons know of the time that a step takes, and a change. All
// use the longest: one communicator may see each microbatch as a step, another all of them.
type paces struct {
	mu    sync.Mutex
	of    map[*comparison]pace
	comms []*Comm // those whose versions are compared, by this rank or another
}

type pace struct{ step, change time.Duration }

// set notes a comparison's pace; the zero pace forgets it.
func (p *paces) set(c *comparison, to pace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if to == (pace{}) {
		delete(p.of, c)
		return
	}
	if p.of == nil {
		p.of = map[*comparison]pace{}
	}
	p.of[c] = to
}

func (p *paces) longest() (most pace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, of := range p.of {
		most.step, most.change = max(most.step, of.step), max(most.change, of.change)
	}
	return most
}

func (p *paces) open(c *Comm) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.comms = append(p.comms, c)
}

func (p *paces) close(c *Comm) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.comms = slices.DeleteFunc(p.comms, func(one *Comm) bool { return one == c })
}

// standing is what is in force on a communicator, and how many calls it has made.
type standing struct {
	comm    *Comm
	meaning string
	calls   uint64
}

// others are the process's communicators but one.
func (p *paces) others(but *Comm) (all []standing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.comms {
		if c != but {
			all = append(all, standing{c, c.member.Snapshot().Meaning(), c.info.Counter.Seq.Load()})
		}
	}
	return all
}
