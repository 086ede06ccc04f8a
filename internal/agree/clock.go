package agree

import "time"

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

// newTimer returns a channel that is closed after d, unless stopped before.
func newTimer(c Clock, d time.Duration) (fired <-chan struct{}, stop func() bool) {
	ch := make(chan struct{})
	return ch, c.AfterFunc(d, func() { close(ch) })
}
