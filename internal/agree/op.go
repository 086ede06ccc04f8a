package agree

import (
	"context"
	"time"
)

// op begins a store operation of the background that lasts no longer than the timing
// allows, and that ends early when the main thread comes to stand: what it waits for
// goes first.
func (m *Member) op() (ctx context.Context, end func()) { return m.operation(m.urgent) }

func (m *Member) operation(urgent bool) (ctx context.Context, end func()) {
	ctx, cancel := context.WithCancel(m.ctx)
	stop := m.cfg.Clock.AfterFunc(m.cfg.Timing.OpLimit, cancel)
	m.lock()
	switch {
	case urgent:
	case m.waiting:
		cancel()
	default:
		m.cancelOp = cancel
	}
	m.unlock()
	return ctx, func() {
		stop()
		m.lock()
		m.cancelOp = nil
		m.unlock()
		cancel()
	}
}

// put is PutOnce with a stopwatch: leads are longer where puts are slow. A put that
// fails does not tell how slow, and one that takes long may have met an outage, after
// which puts are as fast as before: so each doubles the estimate at most. Changes would
// else take minutes after an outage of seconds.
func (m *Member) put(ctx context.Context, key string, value []byte) ([]byte, error) {
	began := m.cfg.Clock.Now()
	stands, err := m.cfg.Store.PutOnce(ctx, key, value)
	if err == nil {
		allowedFor := m.settle() / 4
		slowPut := max(m.slowPut*3/4, min(m.cfg.Clock.Now()-began, 2*allowedFor))
		m.lock() // Slow reads it
		m.slowPut = slowPut
		m.unlock()
	}
	return stands, err
}

// settle is T, the time to plan for.
func (m *Member) settle() time.Duration {
	return max(m.cfg.Timing.Settle, 4*m.slowPut)
}
