package trial

import (
	"math"
	"sync/atomic"
)

// A Clock belongs to the host, whose main thread notes when it makes some of its calls. It lies in C memory,
// with the layout of this struct.
type Clock struct {
	Next   atomic.Uint64 // the first call that is stamped; the main thread's while it is reached
	Every  atomic.Uint64 // calls from one stamp to the next
	Head   atomic.Uint64 // stamps made, by the main thread
	Tail   atomic.Uint64 // stamps read
	Stamps [ClockStamps]Stamp
}

// A Stamp says when a call was made.
type Stamp struct {
	Call  uint64 // its number
	Hash  uint64 // agree.HashCall
	Nanos uint64 // of the wall clock, since 1970
}

// ClockStamps is how many stamps a clock holds until they are read.
const ClockStamps = 1 << 13

// never is the next call to stamp while the clock is stopped.
const never = math.MaxUint64

// stampEvery makes the main thread stamp every n-th call from now on. With n = never, stamping stops at the
// next stamp.
func (c *Clock) stampEvery(n uint64) {
	c.Every.Store(n)
	if n != never && c.Next.Load() == never {
		c.Next.Store(0) // last: the main thread looks at nothing else before
	}
}

// read returns the stamps made since the last time.
func (c *Clock) read() []Stamp {
	head, tail := c.Head.Load(), c.Tail.Load()
	stamps := make([]Stamp, 0, head-tail)
	for ; tail < head; tail++ {
		stamps = append(stamps, c.Stamps[tail%ClockStamps])
	}
	c.Tail.Store(tail)
	return stamps
}
