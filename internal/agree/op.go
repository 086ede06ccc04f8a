package agree

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// op begins a store operation of the background. The operation ends after Timing.OpLimit. It ends earlier
// when the main thread arrives at the barrier, because the main thread's wait must be served first.
func (m *Member) op() (ctx context.Context, end func()) {
	ctx, cancel := withLimit(m.ctx, m.cfg.Clock, m.cfg.Timing.OpLimit)
	m.mu.Lock()
	switch {
	case m.background.urgent:
	case m.wait.decided != nil:
		cancel()
	default:
		m.wait.cancel = cancel
	}
	m.mu.Unlock()
	return ctx, func() {
		m.mu.Lock()
		m.wait.cancel = nil
		m.mu.Unlock()
		cancel()
	}
}

// put times PutOnce, because a change needs a longer lead where puts are slow. It does not count the time of a put
// that fails. One put at most doubles the estimate: after an outage of seconds, changes would otherwise take
// minutes.
func (m *Member) put(key string, value []byte) ([]byte, error) {
	ctx, end := m.op()
	defer end()
	began := m.cfg.Clock.Now()
	stands, err := m.cfg.Store.PutOnce(ctx, key, value)
	if err == nil {
		allowedFor := m.settle() / 4
		took := min(m.cfg.Clock.Now()-began, 2*allowedFor)
		m.slowPut.Store(max(m.slowPut.Load()*3/4, int64(took)))
	}
	return stands, err
}

func (m *Member) list(dir string) ([]Key, error) {
	ctx, end := m.op()
	defer end()
	return listKeys(ctx, m.cfg.Store, dir)
}

func (m *Member) mark(key string) (string, error) {
	ctx, end := m.op()
	defer end()
	return m.cfg.Store.Mark(ctx, key)
}

// settle is T of docs/dev/PROTOCOL.md, longer than Timing.Settle where puts are slow.
func (m *Member) settle() time.Duration {
	return max(m.cfg.Timing.Settle, 4*time.Duration(m.slowPut.Load()))
}

// retry is the time until the next poll of a change that is under way.
func (m *Member) retry() time.Duration {
	if m.background.urgent && m.background.pollsFast {
		return m.cfg.Timing.BarrierPoll
	}
	return m.cfg.Timing.ActivePoll
}

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

// log keeps a line for flushLog: a slow logger must not delay the main thread.
func (m *Member) log(warn bool, format string, args ...any) {
	text, emit := fmt.Sprintf(format, args...), m.cfg.Log.Infof
	if warn {
		emit = m.cfg.Log.Warnf
	}
	m.logLines.add(func(slot string) { emit("%s%s", text, slot) })
}

// flushLog writes the collected lines; the caller does not hold the mutex. Each line names
// the rank index, because NCCL's logger takes the background's threads for those of another rank.
func (m *Member) flushLog() {
	slot := ""
	if m.slot >= 0 {
		slot = fmt.Sprintf(" [rank index %d]", m.slot)
	}
	for _, write := range m.logLines.take() {
		write(slot)
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
