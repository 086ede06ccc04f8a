package agree

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
)

// A Promise is what a rank gives at the checkpoint. The background prepares it, so that the
// main thread makes it in C: to enter Go wakes threads, which may delay a call more than
// all else.
//
// Lock is part of the Member's mutex. The background holds both. The main thread only tries
// Lock (make_promise in tuner/plugin), and calls AtTrigger, which waits for the mutex, if that
// fails. So a promise is made under the mutex like any other step. Lock guards all other fields.
//
// The main thread wakes nobody when it makes a promise. So the background prepares one only
// while it looks often enough whether it was made.
type Promise struct {
	Lock    atomic.Uint32 // 1 while held
	State   PromiseState
	At      uint64 // the checkpoint
	Trigger uint64 // the trigger from then on
	Hash    uint64 // the Counter's Hash at that call
}

// PromiseState is what has become of a Promise.
type PromiseState uint32

const (
	PromiseNone     PromiseState = iota
	PromisePrepared              // by the background
	PromiseMade                  // by the main thread; the background has not looked yet
)

// lock takes the mutex and records a promise that the main thread has made.
func (m *Member) lock() {
	m.mu.Lock()
	for spins := 0; !m.cfg.Counter.Promise.Lock.CompareAndSwap(0, 1); spins++ {
		// The main thread holds it for a few instructions, unless it is stopped there.
		if spins < 100 {
			runtime.Gosched()
			continue
		}
		fired, _ := newTimer(m.cfg.Clock, time.Millisecond)
		<-fired
	}
	if p := &m.cfg.Counter.Promise; p.State == PromiseMade {
		p.State = PromiseNone
		m.wakeUp()
		if m.state == armed {
			m.promise(p.Hash)
		} else {
			m.fail(fmt.Errorf("%w: call %d made the promise of change %d, while this rank was %s", ErrBroken, p.At, m.k, m.state))
		}
	}
}

func (m *Member) unlock() {
	m.cfg.Counter.Promise.Lock.Store(0)
	m.mu.Unlock()
}

// preparePromise lets the main thread promise at call at without entering Go.
func (m *Member) preparePromise(at, trigger uint64) {
	p := &m.cfg.Counter.Promise
	p.State, p.At, p.Trigger = PromisePrepared, at, trigger
}

// dropPrepared makes the main thread call AtTrigger instead.
func (m *Member) dropPrepared() { m.cfg.Counter.Promise.State = PromiseNone }

// isPrepared reports whether the main thread may promise without waking the background.
func (m *Member) isPrepared() bool {
	m.lock()
	defer m.unlock()
	return m.cfg.Counter.Promise.State == PromisePrepared
}
