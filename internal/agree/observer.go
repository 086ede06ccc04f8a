package agree

import "time"

// An Observer hears how a member's changes end. It is called with the member's mutex held, also
// on the main thread, and so must be quick.
type Observer interface {
	// Committed: a version has come into force. took is the time since this rank's own file
	// was found to hold it, 0 if the file does not.
	Committed(took time.Duration)
	Aborted(why Reason)
}

// Reasons are all reasons for an abort.
var Reasons = []Reason{Late, Stall, Slow, Alike, Superseded, CannotStage, OtherBuild, Leaving, Misaligned, Duplicate}

// IsPending reports that a change is wanted or under way.
func (m *Member) IsPending() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pending != nil || m.change.seen
}

// IsFrozen reports that the member keeps its version for good although it was able to change.
func (m *Member) IsFrozen() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state == frozen
}

func (m *Member) observeCommit(took time.Duration) {
	if m.cfg.Observer != nil {
		m.cfg.Observer.Committed(took)
	}
}

func (m *Member) observeAbort(why Reason) {
	if m.cfg.Observer != nil {
		m.cfg.Observer.Aborted(why)
	}
}
