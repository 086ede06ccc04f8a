package agree

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// announcing is a store that tells of new records.
type announcing struct {
	*memHandle
	told chan struct{}
	ends atomic.Bool
}

func (a *announcing) Announce(ctx context.Context, dir string, changed func()) {
	defer a.ends.Store(true)
	changed()
	for {
		select {
		case <-a.told:
			changed()
		case <-ctx.Done():
			return
		}
	}
}

// TestAnnouncedProposal: a store that tells of a proposal makes the members know
// at once, is hardly asked while nothing happens, and is asked anyway now and then. That
// another communicator of the process has ended changes nothing.
func TestAnnouncedProposal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		handle := store.Handle("0", 1, memFaults{})
		a := &announcing{memHandle: handle, told: make(chan struct{})}
		p := NewPoller(a, RealTime(), Etcd)
		m := &Member{cfg: Config{Poller: p}, seat: seat{keys: "comm", slot: 1},
			life: life{wake: make(chan struct{}, 1)}}
		another := &Member{cfg: Config{Poller: p}, seat: seat{keys: "another", slot: 1},
			life: life{wake: make(chan struct{}, 1)}}
		p.add(m)
		p.add(another)
		p.remove(another)
		time.Sleep(time.Minute)
		if n := handle.Count("list"); n > 4 {
			t.Errorf("%d listings in an idle minute", n)
		}
		propose := func(key string, announce bool) time.Duration {
			began := time.Now()
			store.Put(handle, key, []byte("{}"))
			if announce {
				a.told <- struct{}{}
			}
			<-m.wake
			return time.Since(began)
		}
		if took := propose("open/comm.1", true); took > 10*time.Millisecond || m.newest.Load() != 1 {
			t.Errorf("an announced proposal is known after %v", took)
		}
		if took := propose("open/comm.2", false); took > announcedPoll+time.Second || m.newest.Load() != 2 {
			t.Errorf("a proposal whose announcement was lost is known after %v", took)
		}
		p.remove(m)
		if !a.ends.Load() {
			t.Error("the announcements outlive the last member")
		}
	})
}
