package agree

import (
	"fmt"
	"time"
)

// versions are what is in force and what this rank wants in force. Member.mu guards them.
type versions struct {
	current stagedVersion
	past    []pastCommit // static: the switches that are still to come
	pending *pendingEdit // nil: none
	// lastRead is the meaning of the own file as last read.
	lastRead string
	wanted   string // see InForce
	unseen   bool   // an edit has come into force since InForce was last asked
}

// stagedVersion is a version that a member has made ready to decide by.
type stagedVersion struct {
	VersionName
	snapshot Snapshot
	k        uint64 // the change that brings it; 0 for the start version
	from     uint64 // the first call by it, once it is in force
	proposed bool   // see InForce
}

// pastCommit is a switch that was decided before a static member joined, for it to follow.
type pastCommit struct {
	at uint64
	stagedVersion
}

// offer makes the own file's new version the pending edit, and reports whether it is new.
func (s *versions) offer(v Version, now time.Duration) bool {
	if v.Meaning == s.lastRead {
		return false
	}
	s.lastRead, s.wanted = v.Meaning, v.Meaning
	s.pending = &pendingEdit{VersionName: v.name(), content: v.Content, since: now}
	return true
}

// propose makes a version the pending edit, and reports whether it is one now. See Propose.
func (s *versions) propose(v Version, now time.Duration) bool {
	if e := s.pending; s.unseen || e != nil && (!e.proposed || e.Meaning == v.Meaning) {
		return false
	}
	s.pending = &pendingEdit{VersionName: v.name(), content: v.Content, since: now, proposed: true}
	return true
}

// tell returns what is in force, and notes that it was told.
func (s *versions) tell() InForce {
	s.unseen = false
	return InForce{s.current.snapshot, s.current.from, s.current.proposed, s.wanted}
}

// bring brings a version into force at call n. mine: this rank has proposed it. own is the pending
// edit if that is this version.
func (s *versions) bring(v stagedVersion, n uint64, mine bool) (own *pendingEdit) {
	e := s.pending
	if e != nil && !e.proposed && e.Meaning == v.Meaning {
		own = e
	}
	edited := own != nil || !mine // what other ranks propose are edits
	s.current = v
	s.current.from, s.current.proposed = n, !edited
	if edited {
		s.unseen, s.wanted = true, v.Meaning
	}
	if e != nil && (e.Meaning == v.Meaning || e.proposed && edited) {
		s.pending = nil
	}
	return own
}

// putInForce brings a version into force at call n. The caller is the main thread and holds the mutex.
func (m *Member) putInForce(v stagedVersion, n uint64) {
	m.retired.add(m.versions.current.snapshot)
	own := m.versions.bring(v, n, m.change.mine)
	since, took := "", time.Duration(0)
	if own != nil {
		took = m.cfg.Clock.Now() - own.since
		since = fmt.Sprintf(", %v after the save", took.Round(time.Millisecond))
	}
	if m.cfg.Observer != nil {
		m.cfg.Observer.Committed(took)
	}
	if own != nil || m.change.mine || m.change.state == static { // not every rank, at each turn of a comparison
		m.log(false, "change %d: version %.12s is in force from call %d on%s", v.k, v.Meaning, n, since)
	}
	m.wakeUp()
}
