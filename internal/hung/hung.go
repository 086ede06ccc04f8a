// Package hung bounds the wait for file systems and drivers that do not answer. An NFS server
// that is away must not block NCCL's threads.
//
// A process has one Calls for its whole life. A call that hangs keeps its goroutine until it returns.
package hung

import (
	"fmt"
	"sync"
	"time"
)

// Calls remembers the calls that have not returned in time, by name. The zero value is ready.
type Calls struct {
	mu    sync.Mutex
	names map[string]bool
}

// NoAnswer is the error of a call that has not returned in time. The same call may have returned on other
// ranks.
type NoAnswer struct{ limit time.Duration }

func (e NoAnswer) Error() string { return fmt.Sprintf("no answer for %v", e.limit) }

// Do is Get for an f that returns only an error.
func (h *Calls) Do(name string, limit time.Duration, f func() error) error {
	_, err := Get(h, name, limit, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

// Get returns what f returns, or NoAnswer after the limit. After that, f keeps running on its goroutine.
// While it runs, a call of the same name fails at once, so that neither threads nor waits add up.
func Get[T any](h *Calls, name string, limit time.Duration, f func() (T, error)) (T, error) {
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
		return o.result, NoAnswer{limit}
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
			if h.names == nil {
				h.names = map[string]bool{}
			}
			h.names[name] = true
			return o.result, NoAnswer{limit}
		}
	}
	if o.panicked != nil {
		panic(o.panicked) // on the caller's goroutine, where it is contained
	}
	return o.result, o.err
}
