package agree

import (
	"encoding/binary"
	"hash/fnv"
	"time"
)

// meeting is what a rank knows of the call at which the ranks stand until change k is
// decided. The zero value is none.
type meeting struct {
	at    uint64 // the call
	hash  uint64 // see meetingHash
	since time.Duration
	// key is the record that says that this rank stands; "" while it is signed.
	key string
	// signed are the other ranks of this process that the same record speaks for, nil
	// for these themselves.
	signed []*Member
	proxy  bool // another rank of this process puts the record
	// attempted: the record may exist, so the change may be committed.
	attempted bool
	landed    bool // it does exist
	doubted   bool // and said that records have vanished
}

// meetWithin is how many calls after S the ranks look for one to meet at. Each of
// them enters Go.
const meetWithin = 256

// isToMeet reports whether the ranks meet at call n: it is the first from S on that
// differs from the one before. A rank that has made one call more or less than the
// others then stands at another call than they, or at the end of other calls. Where
// all calls are alike, nothing would show that.
func (m *Member) isToMeet(n, call uint64) bool {
	if n > m.change.Switch && (call != m.lastCall || m.cfg.Uniform) {
		return true
	}
	if n-m.change.Switch >= meetWithin {
		m.abstain(Alike)
		return false
	}
	m.passed, m.lastCall, m.passedAt, m.passedBy = n+1, call, m.cfg.Poller.ticks.Add(1), m.cfg.Thread()
	return false
}

// stand makes this rank wait at call n, and those ranks of this thread that have come to
// the same call. NCCL asks all ranks of a thread one after the other, so they cannot all
// stand there; but they have promised to come to Slow.
func (m *Member) stand(n, call uint64) {
	before := m.cfg.Counter.Hash.Load()
	k, c, since := m.k, m.change, m.passedAt
	at := meeting{at: n, hash: meetingHash(c.Tag, n, Mix(before, call)), since: m.cfg.Clock.Now()}
	m.state, m.meeting = standing, at
	m.unlock() // two ranks of a process may sign for each other
	thread := m.cfg.Thread()
	slots := []int{m.slot}
	var signed []*Member
	for _, s := range m.cfg.Poller.siblings(m) {
		if s.isSigned(k, c.Tag, before, since, thread, at) {
			signed = append(signed, s)
			slots = append(slots, s.slot)
		}
	}
	key := m.keys.met(k, at.hash, slots...)
	for _, s := range signed {
		s.lock()
		if s.state == standing && s.k == k {
			s.meeting.key = key
			s.poke()
		}
		s.unlock()
	}
	m.lock()
	if m.state == standing && m.k == k {
		m.meeting.key, m.meeting.signed = key, signed
	}
}

// meetingHash is what ranks that stand together for the same proposal have in common:
// the call and the last calls before it.
func meetingHash(tag string, n, calls uint64) uint64 {
	h := fnv.New64a()
	h.Write([]byte(tag))
	h.Write(binary.LittleEndian.AppendUint64(nil, n))
	h.Write(binary.LittleEndian.AppendUint64(nil, calls))
	return h.Sum64()
}

// isSigned makes a rank that has come to the same call as another one of its thread stand
// there, if it has not gone on. It must have made a call since the other made its last
// one: in a group of several calls, which NCCL asks one rank about after the other, it
// would else be behind, and have come so far by a call that nobody else makes; and on
// another thread it may be behind anyway, and come by itself. Its next call may be one
// that nobody else makes: the collectives before are those of the others all the same.
func (m *Member) isSigned(k uint64, tag string, before, since uint64, thread int, at meeting) bool {
	m.lock()
	defer m.unlock()
	counter := m.cfg.Counter
	if m.state != promised || m.k != k || m.change.Tag != tag || m.passed > at.at || m.passedAt < since || m.passedBy != thread ||
		counter.Seq.Load() != at.at || counter.Hash.Load() != before {
		return false
	}
	at.proxy, at.attempted = true, true
	m.state, m.meeting = standing, at
	return true
}
