package tuner

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
)

// hungCalls are the calls of file systems and drivers that have not returned, by name: an NFS
// server that is away must not block NCCL's threads.
type hungCalls struct {
	mu    sync.Mutex
	names map[string]bool
}

// noAnswer is the error of a call that has not returned in time. On other ranks it may have.
type noAnswer struct{ limit time.Duration }

func (e noAnswer) Error() string { return fmt.Sprintf("no answer for %v", e.limit) }

// within is withTimeout for an f that returns nothing else.
func within(h *hungCalls, name string, limit time.Duration, f func() error) error {
	_, err := withTimeout(h, name, limit, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// withTimeout returns what f returns, or noAnswer after the limit. Then f goes on by itself,
// and as long as it does, a call of the same name fails at once: neither threads nor waits
// add up.
func withTimeout[T any](h *hungCalls, name string, limit time.Duration, f func() (T, error)) (T, error) {
	type outcome struct {
		result   T
		err      error
		panicked any
	}
	var o outcome
	h.mu.Lock()
	hangs := h.names[name]
	h.mu.Unlock()
	if hangs {
		return o.result, noAnswer{limit}
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			o.panicked = recover()
			done <- o
			h.mu.Lock()
			delete(h.names, name)
			h.mu.Unlock()
		}()
		o.result, o.err = f()
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case o = <-done:
	case <-timer.C:
		h.mu.Lock()
		defer h.mu.Unlock()
		select {
		case o = <-done: // at the last moment
		default:
			h.names[name] = true
			return o.result, noAnswer{limit}
		}
	}
	if o.panicked != nil {
		panic(o.panicked) // on the caller's goroutine, where it is contained
	}
	return o.result, o.err
}

// whileRunning returns a context that ends when this process has run for so long. It counts at most a second
// for each of its wake-ups, and so not the time for which a debugger, say, has stopped the process.
func whileRunning(clock agree.Clock, limit time.Duration) (ctx context.Context, cancel context.CancelFunc) {
	ctx, cancel = context.WithCancel(context.Background())
	var wait func(left time.Duration)
	wait = func(left time.Duration) {
		clock.AfterFunc(min(left, time.Second), func() {
			switch left -= time.Second; {
			case left <= 0:
				cancel()
			case ctx.Err() == nil:
				wait(left)
			}
		})
	}
	wait(limit)
	return ctx, cancel
}
