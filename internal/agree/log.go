package agree

import "fmt"

// logLine is a line for the log. Lines are collected under the mutex and written without
// it: a slow logger must not delay the main thread.
type logLine struct {
	warn bool
	text string
}

// logLocked adds a line; the caller holds the mutex.
func (m *Member) logLocked(warn bool, format string, args ...any) {
	m.logLines = append(m.logLines, logLine{warn, fmt.Sprintf(format, args...)})
}

// log adds a line; the caller does not hold the mutex.
func (m *Member) log(warn bool, format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.logLocked(warn, format, args...)
}

// flushLog writes the collected lines; the caller does not hold the mutex. Each line names
// the slot, because NCCL's logger takes the background's threads for those of another rank.
func (m *Member) flushLog() {
	m.mu.Lock()
	lines, slot := m.logLines, ""
	if m.slot >= 0 {
		slot = fmt.Sprintf(" [slot %d]", m.slot)
	}
	m.logLines = nil
	m.mu.Unlock()
	for _, l := range lines {
		if l.warn {
			m.cfg.Log.Warnf("%s%s", l.text, slot)
		} else {
			m.cfg.Log.Infof("%s%s", l.text, slot)
		}
	}
}
