package agree

import "fmt"

// note is a line for the log. Lines are collected under the mutex and written
// without it: a slow logger must not hold up the main thread.
type note struct {
	warn bool
	text string
}

func (m *Member) note(warn bool, format string, args ...any) {
	m.notes = append(m.notes, note{warn, fmt.Sprintf(format, args...)})
}

// say notes a line for one who does not hold the mutex.
func (m *Member) say(warn bool, format string, args ...any) {
	m.lock()
	defer m.unlock()
	m.note(warn, format, args...)
}

// flush writes the notes; the mutex must not be held. Each names the slot: the background
// writes through threads that NCCL's logger takes for another rank's.
func (m *Member) flush() {
	m.lock()
	notes, slot := m.notes, ""
	if m.slot >= 0 {
		slot = fmt.Sprintf(" [slot %d]", m.slot)
	}
	m.notes = nil
	m.unlock()
	for _, n := range notes {
		if n.warn {
			m.cfg.Log.Warnf("%s%s", n.text, slot)
		} else {
			m.cfg.Log.Infof("%s%s", n.text, slot)
		}
	}
}
