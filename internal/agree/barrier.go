package agree

import (
	"encoding/binary"
	"hash/fnv"
	"time"
)

// arrival is what a rank knows of its arrival at the barrier of change k. The zero value means that it has not
// arrived.
type arrival struct {
	at    uint64 // the barrier's call
	hash  uint64 // see arrivalHash
	since time.Duration
	// key is that of the record; "" until the rank that puts it knows whom it represents.
	key string
	// represented are the other ranks of this process that arrive by the same record; nil in those ranks
	// themselves.
	represented []*Member
	byProxy     bool // another rank of this process puts the record
	// attempted: the record may exist, so the change may be committed.
	attempted bool
	landed    bool // the record exists
}

// lastPassed describes the last call that the main thread let pass while it looked for the barrier. The zero value
// means that there was none. See Member.arriveByProxy.
type lastPassed struct {
	next   uint64 // the number of the call after it
	call   uint64 // its HashCall
	tick   uint64 // the value of Poller.ticks at the call
	thread int    // the thread that made it
}

// barrierWithin is how many calls after S may be the barrier. The main thread enters Go at
// each of them.
const barrierWithin = 256

// isBarrier reports whether call n is the barrier: the first call after S that differs from the call before it.
// A rank that has made one call more or less than the others arrives at another call, or after other calls, and
// so is noticed. If all calls are alike, nothing would show it, and the rank withdraws.
func (m *Member) isBarrier(n, call uint64) bool {
	if n > m.change.Switch && (call != m.change.lastPassed.call || m.cfg.Uniform) {
		return true
	}
	if n-m.change.Switch >= barrierWithin {
		m.withdraw(Alike)
		return false
	}
	m.change.lastPassed = lastPassed{n + 1, call, m.cfg.Poller.ticks.Add(1), m.cfg.Thread()}
	return false
}

// arrive makes this rank arrive at call n, together with the siblings on this thread that have come to the same
// call. NCCL asks the ranks of a thread one after the other, so they cannot all wait there. Each has promised to
// stop at its trigger.
func (m *Member) arrive(n, call uint64) {
	before, thread := m.cfg.Counter.Hash(), m.cfg.Thread()
	at := arrival{at: n, hash: arrivalHash(m.change.Tag, n, before, call), since: m.cfg.Clock.Now()}
	c := m.change
	m.change.state, m.change.arrival = arrived, at
	m.mu.Unlock() // two ranks of a process may represent each other
	slots := []int{m.slot}
	var represented []*Member
	for _, s := range m.cfg.Poller.siblings(m) {
		if s.arriveByProxy(c, before, thread, at) {
			represented = append(represented, s)
			slots = append(slots, s.slot)
		}
	}
	key := m.keys.arrival(c.k, at.hash, slots...)
	for _, s := range represented {
		s.mu.Lock()
		if s.change.state == arrived && s.change.k == c.k {
			s.change.arrival.key = key
			s.wakeUp()
		}
		s.mu.Unlock()
	}
	m.mu.Lock()
	if m.change.state == arrived && m.change.k == c.k {
		m.change.arrival.key, m.change.arrival.represented = key, represented
	}
}

// arrivalHash is equal for ranks that arrive for the same proposal at the same call n, after the same calls.
// before is Counter.Hash at call n.
func arrivalHash(tag string, n, before, call uint64) uint64 {
	h := fnv.New64a()
	h.Write([]byte(tag))
	for _, number := range []uint64{n, before, call} {
		h.Write(binary.LittleEndian.AppendUint64(nil, number))
	}
	return h.Sum64()
}

// arriveByProxy makes this rank arrive together with a sibling, whose change is of, if it has come to
// the same call on the same thread. A rank of another thread may be behind, and arrives by itself.
//
// This rank must have made a call since the sibling made its last one. NCCL asks a group of calls of one rank
// after the other. So this rank would otherwise be behind, and a call that nobody else makes would have brought
// its count here. This rank's next call may be such a call: the collectives before it are still those of the
// others.
func (m *Member) arriveByProxy(of change, before uint64, thread int, at arrival) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, counter := &m.change, m.cfg.Counter
	if c.state != promised || c.k != of.k || c.Tag != of.Tag ||
		c.lastPassed.next > at.at || c.lastPassed.tick < of.lastPassed.tick || c.lastPassed.thread != thread ||
		counter.Seq.Load() != at.at || counter.Hash() != before {
		return false
	}
	at.byProxy, at.attempted = true, true
	c.state, c.arrival = arrived, at
	return true
}
