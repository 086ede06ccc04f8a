package trial

import (
	"math"
	"sync/atomic"
)

// A Clock is the host's: its main thread notes when it makes some of its calls. It lies in C
// memory, laid out as here.
type Clock struct {
	Next   atomic.Uint64 // the first call that is stamped; the main thread's while it is reached
	Every  atomic.Uint64 // calls from one stamp to the next
	Head   atomic.Uint64 // stamps made, by the main thread
	Tail   atomic.Uint64 // stamps read
	Stamps *[ClockStamps]Stamp
}

// A Stamp says when a call was made.
type Stamp struct {
	Call  uint64 // its number
	Hash  uint64 // agree.HashCall
	Nanos uint64 // of the wall clock, since 1970
}

// ClockStamps is how many stamps a clock holds until they are read.
const ClockStamps = 1 << 13

// never is the next call while the clock stands.
const never = math.MaxUint64

// stampEvery has every n-th call stamped from now on, each with n = 1; never stops that at the next stamp. It
// returns false where there is no memory for stamps.
func (c *Clock) stampEvery(n uint64, newStamps func() *[ClockStamps]Stamp) bool {
	if c.Stamps == nil {
		if c.Stamps = newStamps(); c.Stamps == nil {
			return false
		}
	}
	c.Every.Store(n)
	if n != never && c.Next.Load() == never {
		c.Next.Store(0) // last: the main thread looks at nothing else before
	}
	return true
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
