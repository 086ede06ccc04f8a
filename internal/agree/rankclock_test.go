package agree

import (
	"sync"
	"sync/atomic"
	"time"
)

// rankClock is the clock of a rank's process, which may be stopped.
type rankClock struct {
	Clock
	timers *atomic.Int64 // counts those that were started
	late   time.Duration // how late they fire

	mu      sync.Mutex
	stopped time.Duration // in all
	pending map[*timer]bool
}

type timer struct {
	at   time.Duration
	stop func() bool
	f    func()
}

func (c *rankClock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.Clock.Now() + c.stopped
}

func (c *rankClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	c.timers.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	d += c.late
	t := &timer{at: c.Clock.Now() + c.stopped + d, f: f}
	t.stop = c.Clock.AfterFunc(d, func() {
		c.forget(t)
		f()
	})
	if c.pending == nil {
		c.pending = map[*timer]bool{}
	}
	c.pending[t] = true
	return func() bool {
		c.forget(t)
		return t.stop()
	}
}

func (c *rankClock) forget(t *timer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, t)
}

// skip is what a process finds that was stopped for so long: it is later, and all timers that ended meanwhile fire.
func (c *rankClock) skip(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped += d
	for t := range c.pending {
		if t.at <= c.Clock.Now()+c.stopped && t.stop() {
			delete(c.pending, t)
			go t.f()
		}
	}
}
