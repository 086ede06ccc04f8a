package tuner

import (
	"fmt"
	"sync"
	"time"
)

// hungCalls are those to file systems and drivers that hang: an NFS server that is away
// must not take NCCL's threads with it.
type hungCalls struct {
	mu    sync.Mutex
	names map[string]bool
}

// noAnswer is the error of a question without an answer. What other ranks were answered
// is not known then.
type noAnswer struct{ limit time.Duration }

func (e noAnswer) Error() string { return fmt.Sprintf("no answer for %v", e.limit) }

// withTimeout returns what f returns, or noAnswer after the limit; f goes on by itself then. As
// long as it does, the same question is not asked again: neither threads nor waits add
// up.
func withTimeout[T any](q *hungCalls, name string, limit time.Duration, f func() (T, error)) (T, error) {
	type outcome struct {
		result   T
		err      error
		panicked any
	}
	var o outcome
	q.mu.Lock()
	hangs := q.names[name]
	q.mu.Unlock()
	if hangs {
		return o.result, noAnswer{limit}
	}
	done := make(chan outcome, 1)
	go func() {
		var o outcome
		defer func() {
			o.panicked = recover()
			done <- o
			q.mu.Lock()
			delete(q.names, name)
			q.mu.Unlock()
		}()
		o.result, o.err = f()
	}()
	patience := time.NewTimer(limit)
	defer patience.Stop()
	select {
	case o = <-done:
	case <-patience.C:
		q.mu.Lock()
		defer q.mu.Unlock()
		select {
		case o = <-done: // at the last moment
		default:
			q.names[name] = true
			return o.result, noAnswer{limit}
		}
	}
	if o.panicked != nil {
		panic(o.panicked) // on the caller's goroutine, where it is contained
	}
	return o.result, o.err
}
