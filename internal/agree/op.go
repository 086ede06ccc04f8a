package agree

import (
	"context"
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

// put is PutOnce with a stopwatch, because leads must be longer where puts are slow. It does not measure a put
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

func (m *Member) list(dir string) ([]string, error) {
	ctx, end := m.op()
	defer end()
	return m.cfg.Store.List(ctx, dir)
}

func (m *Member) mark(key string) (string, error) {
	ctx, end := m.op()
	defer end()
	return m.cfg.Store.Mark(ctx, key)
}

// settle is T of docs/PROTOCOL.md, longer than Timing.Settle where puts are slow.
func (m *Member) settle() time.Duration {
	return max(m.cfg.Timing.Settle, 4*time.Duration(m.slowPut.Load()))
}
