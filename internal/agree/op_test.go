package agree

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// slowStore answers each put after the next of its times.
type slowStore struct {
	Store
	puts []time.Duration
}

func (s *slowStore) PutOnce(_ context.Context, _ string, value []byte) ([]byte, error) {
	time.Sleep(s.puts[0]) // simulated
	s.puts = s.puts[1:]
	return value, nil
}

// What is planned for a change follows the time of the store's puts, and one that met
// an outage does not stand for all that follow.
func TestSettle(t *testing.T) {
	t.Parallel()
	const fast, slow = 5 * time.Millisecond, 3 * time.Second
	for _, c := range []struct {
		name string
		puts []time.Duration
		want time.Duration
	}{
		{"fast", []time.Duration{fast, fast, fast}, Etcd.Settle},
		{"an outage", []time.Duration{fast, fast, slow}, 2 * Etcd.Settle},
		{"after it", []time.Duration{fast, fast, slow, fast, fast, fast}, Etcd.Settle},
		{"slow", []time.Duration{slow, slow, slow, slow, slow, slow}, 4 * slow},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &Member{cfg: Config{Store: &slowStore{puts: c.puts}, Clock: RealTime(), Timing: Etcd,
					Counter: &Counter{}}, ctx: t.Context()}
				for range c.puts {
					go func() { // as AtTrigger does
						m.mu.Lock()
						defer m.mu.Unlock()
						m.settle()
					}()
					m.put("", nil)
				}
				if got := m.settle(); got != c.want {
					t.Errorf("T is %v, want %v", got, c.want)
				}
			})
		})
	}
}

// While the main thread waits at the barrier, a store that hangs holds up nothing but what that wait is for.
func TestOpWhileTheMainThreadWaits(t *testing.T) {
	t.Parallel()
	for urgent, want := range map[bool]time.Duration{true: Etcd.OpLimit, false: 0} {
		synctest.Test(t, func(t *testing.T) {
			hangs := newMemStore().Handle("rank", 1, memFaults{})
			hangs.SetDown(true, true)
			m := &Member{cfg: Config{Store: hangs, Clock: RealTime(), Timing: Etcd, Counter: &Counter{}},
				ctx: t.Context(), wait: wait{decided: make(chan struct{})},
				background: background{urgent: urgent}}
			began := time.Now()
			if _, err := m.put("key", nil); err == nil || time.Since(began) != want {
				t.Errorf("urgent %v: %v after %v, want %v", urgent, err, time.Since(began), want)
			}
			ctx, end := m.op()
			if end(); ctx.Err() == nil {
				t.Error("an operation that is over keeps its context, one more with each")
			}
		})
	}
}
