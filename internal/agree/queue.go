package agree

import (
	"fmt"
	"sync"
)

// A queue holds what is found out under the member's mutex and done without it. Any goroutine
// may use it.
type queue[T any] struct {
	mu    sync.Mutex
	items []T
}

func (q *queue[T]) add(items ...T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items = append(q.items, items...)
}

// take empties the queue.
func (q *queue[T]) take() (items []T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	items, q.items = q.items, nil
	return items
}

// logLine is a line for the log. A slow logger must not delay the main thread.
type logLine struct {
	warn bool
	text string
}

func (m *Member) log(warn bool, format string, args ...any) {
	m.logLines.add(logLine{warn, fmt.Sprintf(format, args...)})
}

// flushLog writes the collected lines; the caller does not hold the mutex. Each line names
// the slot, because NCCL's logger takes the background's threads for those of another rank.
func (m *Member) flushLog() {
	slot := ""
	if m.slot >= 0 {
		slot = fmt.Sprintf(" [slot %d]", m.slot)
	}
	for _, l := range m.logLines.take() {
		if l.warn {
			m.cfg.Log.Warnf("%s%s", l.text, slot)
		} else {
			m.cfg.Log.Infof("%s%s", l.text, slot)
		}
	}
}

// retireOld tells snapshots that they are no longer needed.
func (m *Member) retireOld() {
	for _, snapshot := range m.retired.take() {
		snapshot.Retire()
	}
}

// removeObsolete removes this rank's records that nobody reads again. It tries once, since
// they only take up space.
func (m *Member) removeObsolete() {
	for _, key := range m.obsolete.take() {
		ctx, end := m.op()
		_ = m.cfg.Store.Remove(ctx, key) // a leftover only takes space
		end()
	}
}
