package agree

import (
	"encoding/binary"
	"hash/fnv"
	"time"
)

// arrival is what a rank knows of its arrival at the barrier of change k. The zero value is
// none.
type arrival struct {
	at    uint64 // the barrier's call
	hash  uint64 // see arrivalHash
	since time.Duration
	// key is that of the record; "" until the rank that puts it knows whom it represents.
	key string
	// represented are the other ranks of this process for which the same record stands;
	// nil for these themselves.
	represented []*Member
	byProxy     bool // another rank of this process puts the record
	// attempted: the record may exist, so the change may be committed.
	attempted bool
	landed    bool // it does exist
	doubted   bool // it was logged that records have vanished
}

// barrierWithin is how many calls after S may be the barrier. The main thread enters Go at
// each of them.
const barrierWithin = 256

// isBarrier reports whether call n is the barrier: the first call after S that differs from
// the call before it. A rank that has made one call more or less than the others then
// arrives at another call than they do, or after other calls. Where all calls are alike,
// nothing would show that, and the rank withdraws.
func (m *Member) isBarrier(n, call uint64) bool {
	if n > m.change.Switch && (call != m.lastCall || m.cfg.Uniform) {
		return true
	}
	if n-m.change.Switch >= barrierWithin {
		m.withdraw(Alike)
		return false
	}
	m.passed, m.lastCall, m.passedAt, m.passedBy = n+1, call, m.cfg.Poller.ticks.Add(1), m.cfg.Thread()
	return false
}

// arrive makes this rank arrive at call n, and with it the siblings on this thread that have
// come to the same call. NCCL asks the ranks of a thread one after the other, so they could
// not all wait there; but each has promised to stop at its trigger.
func (m *Member) arrive(n, call uint64) {
	before := m.cfg.Counter.Hash()
	k, c, since := m.k, m.change, m.passedAt
	at := arrival{at: n, hash: arrivalHash(c.Tag, n, before, call), since: m.cfg.Clock.Now()}
	m.state, m.arrival = arrived, at
	m.mu.Unlock() // two ranks of a process may represent each other
	thread := m.cfg.Thread()
	slots := []int{m.slot}
	var represented []*Member
	for _, s := range m.cfg.Poller.siblings(m) {
		if s.arriveByProxy(k, c.Tag, before, since, thread, at) {
			represented = append(represented, s)
			slots = append(slots, s.slot)
		}
	}
	key := m.keys.arrival(k, at.hash, slots...)
	for _, s := range represented {
		s.mu.Lock()
		if s.state == arrived && s.k == k {
			s.arrival.key = key
			s.wakeUp()
		}
		s.mu.Unlock()
	}
	m.mu.Lock()
	if m.state == arrived && m.k == k {
		m.arrival.key, m.arrival.represented = key, represented
	}
}

// arrivalHash is equal for ranks that arrive for the same proposal at the same call n, after
// the same calls, of which before is the Counter's Hash.
func arrivalHash(tag string, n, before, call uint64) uint64 {
	h := fnv.New64a()
	h.Write([]byte(tag))
	for _, number := range []uint64{n, before, call} {
		h.Write(binary.LittleEndian.AppendUint64(nil, number))
	}
	return h.Sum64()
}

// arriveByProxy makes this rank arrive together with a sibling, if it has come to the same
// call on the same thread. A rank of another thread may be behind, and arrives by itself.
//
// This rank must have made a call since the sibling made its last one. Inside a group of
// calls, which NCCL asks of one rank after the other, this rank would otherwise be behind,
// and a call that nobody else makes would have brought its count here. This rank's next
// call may be such a call: the collectives before it are those of the others all the same.
func (m *Member) arriveByProxy(k uint64, tag string, before, since uint64, thread int, at arrival) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	counter := m.cfg.Counter
	if m.state != promised || m.k != k || m.change.Tag != tag || m.passed > at.at || m.passedAt < since || m.passedBy != thread ||
		counter.Seq.Load() != at.at || counter.Hash() != before {
		return false
	}
	at.byProxy, at.attempted = true, true
	m.state, m.arrival = arrived, at
	return true
}
