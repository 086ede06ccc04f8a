package agree

import (
	"context"
	"time"
)

// Timing says how often a kind of store is asked and how long it needs.
type Timing struct {
	IdlePoll    time.Duration // between listings of proposals while nothing happens
	ActivePoll  time.Duration // between looks at a change that is under way
	BarrierPoll time.Duration // and while the main thread waits at the barrier
	// Settle is T: the time that all ranks need to see and stage a proposal, again from
	// their promise to S, and the time that a rank waits at the barrier for the others.
	Settle time.Duration
	// OpLimit bounds one store operation; it then counts as failed and is repeated.
	OpLimit time.Duration
	// MinLead is the least number of calls from proposal to c and from c to S.
	MinLead uint64
	// StallLimit is how long a main thread may wait at the barrier for a lost store
	// before its call fails; 0 means for ever.
	StallLimit time.Duration
}

// DefaultStallLimit ends a job with a clear message instead of a hang.
const DefaultStallLimit = 120 * time.Second

// Timings for the kinds of store.
var (
	Local = Timing{
		IdlePoll: 250 * time.Millisecond, ActivePoll: 50 * time.Millisecond, BarrierPoll: 2 * time.Millisecond,
		Settle: 500 * time.Millisecond, OpLimit: 2 * time.Second, MinLead: 32, StallLimit: DefaultStallLimit,
	}
	Shared = Timing{
		IdlePoll: time.Second, ActivePoll: 250 * time.Millisecond, BarrierPoll: 50 * time.Millisecond,
		Settle: 3 * time.Second, OpLimit: 10 * time.Second, MinLead: 32, StallLimit: DefaultStallLimit,
	}
	Etcd = Timing{
		IdlePoll: time.Second, ActivePoll: 250 * time.Millisecond, BarrierPoll: 10 * time.Millisecond,
		Settle: 500 * time.Millisecond, OpLimit: 5 * time.Second, MinLead: 32, StallLimit: DefaultStallLimit,
	}
)

// AggregatedSettle is the least Settle where stores are NodeStores: more steps lie between
// two ranks then.
const AggregatedSettle = 10 * time.Second

// JoinLimit is the time that Join should be given.
const JoinLimit = 10 * time.Second

const (
	// stageLimit is how long a proposal's blob may stay unreadable. It was stored
	// before the proposal, so only an outdated view hides it for a while.
	stageLimit = 10 * time.Second
	leaveLimit = time.Second
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
