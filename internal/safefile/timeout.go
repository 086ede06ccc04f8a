package safefile

import (
	"fmt"
	"sync"
	"time"
)

// Timeouts remembers the calls that have not returned in time, by name: an NFS server that is away must not block
// NCCL's threads. A process has one for its whole life, and the zero value is ready. A call that hangs keeps its
// goroutine until it returns.
type Timeouts struct {
	mu    sync.Mutex
	names map[string]bool
}

// NoAnswer is the error of a call that has not returned in time. The same call may have returned on other
// ranks.
type NoAnswer struct{ limit time.Duration }

func (e NoAnswer) Error() string { return fmt.Sprintf("no answer for %v", e.limit) }

// Do is Within for an f that returns only an error.
func (t *Timeouts) Do(name string, limit time.Duration, f func() error) error {
	_, err := Within(t, name, limit, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// Within returns what f returns, or NoAnswer after the limit. After that, f keeps running on its goroutine.
// While it runs, a call of the same name fails at once, so that neither threads nor waits add up.
func Within[T any](t *Timeouts, name string, limit time.Duration, f func() (T, error)) (T, error) {
	type outcome struct {
		result   T
		err      error
		panicked any
	}
	var o outcome
	t.mu.Lock()
	hangs := t.names[name]
	t.mu.Unlock()
	if hangs {
		return o.result, NoAnswer{limit}
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			o.panicked = recover()
			done <- o
			t.mu.Lock()
			delete(t.names, name)
			t.mu.Unlock()
		}()
		o.result, o.err = f()
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case o = <-done:
	case <-timer.C:
		// Under the mutex: f's goroutine sends its outcome before it deletes the name, so the name is not left behind.
		t.mu.Lock()
		defer t.mu.Unlock()
		select {
		case o = <-done: // at the last moment
		default:
			if t.names == nil {
				t.names = map[string]bool{}
			}
			t.names[name] = true
			return o.result, NoAnswer{limit}
		}
	}
	if o.panicked != nil {
		panic(o.panicked) // on the caller's goroutine, where it is contained
	}
	return o.result, o.err
}
