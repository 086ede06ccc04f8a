package tuner

import (
	"sync"
	"time"
)

// paces are what the process's comparisons know of the time that a step takes, and a change. All
// use the longest: one communicator may see each microbatch as a step, another all of them.
type paces struct {
	mu sync.Mutex
	of map[*comparison]pace
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
