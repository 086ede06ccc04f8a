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
	lastRead       string
	wanted         string // see InForce
	editUnreported bool   // an edit has come into force since InForce was last asked
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

// putInForce brings a version into force at call n. The caller is the main thread and holds the mutex.
func (m *Member) putInForce(v stagedVersion, n uint64) {
	s := &m.versions
	e, mine := s.pending, m.change.mine
	own := e != nil && !e.proposed && e.Meaning == v.Meaning
	edited := own || !mine // what other ranks propose are edits
	m.retired.add(s.current.snapshot)
	s.current = v
	s.current.from, s.current.proposed = n, !edited
	if edited {
		s.editUnreported, s.wanted = true, v.Meaning
	}
	if e != nil && (e.Meaning == v.Meaning || e.proposed && edited) {
		s.pending = nil
	}
	since, took := "", time.Duration(0)
	if own {
		took = m.cfg.Clock.Now() - e.since
		since = fmt.Sprintf(", %v after the save", took.Round(time.Millisecond))
	}
	if m.cfg.Observer != nil {
		m.cfg.Observer.Committed(took)
	}
	if own || mine || m.change.state == static { // not every rank, at each turn of a comparison
		m.log(false, "change %d: version %.12s is in force from call %d on%s", v.k, v.Meaning, n, since)
	}
	m.wakeUp()
}
