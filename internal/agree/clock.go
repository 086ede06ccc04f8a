package agree

import (
	"context"
	"time"
)

// A Clock measures durations. Nothing here compares the clocks of two ranks.
type Clock interface {
	// Now is the time since some fixed moment; it never goes back.
	Now() time.Duration
	// AfterFunc calls f in a goroutine of its own after d, unless stopped before.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// RealTime is the process's monotonic clock.
func RealTime() Clock { return realTime{time.Now()} }

type realTime struct{ start time.Time }

func (r realTime) Now() time.Duration { return time.Since(r.start) }

func (r realTime) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// withLimit returns a context that ends after d. end must be called.
func withLimit(ctx context.Context, c Clock, d time.Duration) (limited context.Context, end func()) {
	limited, cancel := context.WithCancel(ctx)
	stop := c.AfterFunc(d, cancel)
	return limited, func() { stop(); cancel() }
}

// forever is the wait of a background that has nothing to do until it is woken.
const forever = time.Duration(1<<63 - 1)

// sleep ends after d, when it is woken, or when ctx ends.
func sleep(ctx context.Context, c Clock, d time.Duration, woken <-chan struct{}) {
	var fired chan struct{}
	if d < forever {
		fired = make(chan struct{})
		defer c.AfterFunc(d, func() { close(fired) })()
	}
	select {
	case <-fired:
	case <-woken:
	case <-ctx.Done():
	}
}
