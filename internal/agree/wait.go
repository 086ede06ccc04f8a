package agree

import (
	"context"
	"fmt"
	"time"
)

// wait is the main thread's wait at the barrier, and the store operation that must not delay it. Member.mu
// guards it.
type wait struct {
	decided chan struct{}      // ends the wait; nil while there is none
	cancel  context.CancelFunc // ends the background's store operation; nil while there is none
}

// begin begins a wait for the decision.
func (w *wait) begin() (decided <-chan struct{}) {
	w.decided = make(chan struct{})
	w.interrupt() // a slow operation must not delay the arrival
	return w.decided
}

// release ends the wait.
func (w *wait) release() {
	if w.decided != nil {
		close(w.decided)
		w.decided = nil
	}
}

// interrupt ends the background's store operation.
func (w *wait) interrupt() {
	if w.cancel != nil {
		w.cancel()
	}
}

const (
	firstWarning = time.Second
	nextWarning  = 10 * time.Second
	longStall    = 100 * time.Millisecond
	waitSlice    = time.Second
)

// await waits until change k is decided, or until the background has withdrawn this rank.
// The background does all store operations meanwhile. The caller is the main thread and holds the
// mutex, which await gives back while it waits.
//
// Time in which the process is stopped, as by a debugger, does not count, and the background has to ask the store
// after it. So the wait consists of slices, and one in which the process was stopped does not count.
func (m *Member) await() {
	limit := m.cfg.Timing.StallLimit
	warn := max(firstWarning, 2*m.settle())
	k, at := m.change.k, m.change.arrival.at
	decided := m.wait.begin()
	m.wakeUp()
	var waited time.Duration
	for m.change.state == arrived && m.ending.failed == nil {
		if limit > 0 && waited >= limit {
			m.fail(fmt.Errorf("%w (waited %v for change %d)", ErrStalled, waited.Round(time.Second), k))
			return
		}
		if waited >= warn {
			m.log(true, "change %d: call %d has waited %v for the store to tell the decision", k, at,
				waited.Round(time.Second))
			warn += nextWarning
		}
		began := m.cfg.Clock.Now()
		m.mu.Unlock()
		m.flushLog()
		sleep(context.Background(), m.cfg.Clock, waitSlice, decided)
		m.mu.Lock()
		if slept := m.cfg.Clock.Now() - began; slept < 2*waitSlice {
			waited += slept
		}
	}
	if waited > longStall {
		m.log(false, "change %d: call %d waited %v for the other ranks", k, at, waited.Round(time.Millisecond))
	}
}
