package agree

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
)

// A Move is the promise at the checkpoint, laid ready by the background so that the
// main thread can make it where it is. To enter Go wakes threads, and that alone may
// take a call longer than all else.
//
// Lock is part of the Member's mutex: the background holds both, the main thread tries
// Lock alone, and goes to Slow, where it waits for the mutex, if that fails. So a move
// is made under the mutex like any other step. All other fields are guarded by Lock.
//
// The main thread wakes nobody. The background lays a move ready only while it looks
// often enough whether it was made.
type Move struct {
	Lock  atomic.Uint32 // 1 while held
	State MoveState
	At    uint64 // the call before which it is made
	Trig  uint64 // the trigger from then on
	Hash  uint64 // the Counter's at that call
}

// MoveState is what has become of a Move.
type MoveState uint32

const (
	MoveNone  MoveState = iota
	MoveReady           // by the background
	MoveMade            // by the main thread; the background has not looked yet
)

// TryMove is what the main thread does before call n once the trigger is reached. If
// made, there is no need for Slow. Its C twin is make_move in tuner/plugin.
func (c *Counter) TryMove(n uint64) (made bool) {
	m := &c.Move
	if !m.Lock.CompareAndSwap(0, 1) {
		return false
	}
	defer m.Lock.Store(0)
	if m.State != MoveReady || n != m.At {
		return false
	}
	m.State, m.Hash = MoveMade, c.Hash.Load()
	c.Trig.Store(m.Trig)
	return true
}

// lock takes the mutex, and takes note of a move that the main thread has made.
func (m *Member) lock() {
	m.mu.Lock()
	for spins := 0; !m.cfg.Counter.Move.Lock.CompareAndSwap(0, 1); spins++ {
		// The main thread holds it for a few instructions, unless it is stopped there.
		if spins < 100 {
			runtime.Gosched()
			continue
		}
		rings, _ := alarm(m.cfg.Clock, time.Millisecond)
		<-rings
	}
	if move := &m.cfg.Counter.Move; move.State == MoveMade {
		move.State = MoveNone
		m.poke()
		if m.state == armed {
			m.promise(move.Hash)
		} else {
			m.fail(fmt.Errorf("%w: call %d made the promise of change %d, while this rank was %s", ErrBroken, move.At, m.k, m.state))
		}
	}
}

func (m *Member) unlock() {
	m.cfg.Counter.Move.Lock.Store(0)
	m.mu.Unlock()
}

// ready lays a move ready.
func (m *Member) ready(at, trig uint64) {
	move := &m.cfg.Counter.Move
	move.State, move.At, move.Trig = MoveReady, at, trig
}

// withdraw leaves the next step to Slow.
func (m *Member) withdraw() { m.cfg.Counter.Move.State = MoveNone }

// isReady reports whether the main thread may make a move and tell nobody.
func (m *Member) isReady() bool {
	m.lock()
	defer m.unlock()
	return m.cfg.Counter.Move.State == MoveReady
}

// rest withdraws the move. A communicator that makes no calls for hours must not cost
// more than one without a change; when it comes to the move, Slow wakes the background.
func (m *Member) rest() {
	m.lock()
	defer m.unlock()
	m.withdraw()
}
