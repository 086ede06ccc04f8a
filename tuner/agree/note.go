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

// flush writes the notes; the mutex must not be held.
func (m *Member) flush() {
	m.lock()
	notes := m.notes
	m.notes = nil
	m.unlock()
	for _, n := range notes {
		if n.warn {
			m.cfg.Log.Warnf("%s", n.text)
		} else {
			m.cfg.Log.Infof("%s", n.text)
		}
	}
}
