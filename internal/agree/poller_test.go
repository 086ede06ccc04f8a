package agree

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestPollerTellsOfProposals: one listing serves all members of a process, and members hear of a proposal with
// the next one. That another communicator of the process has ended changes nothing.
func TestPollerTellsOfProposals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newMemStore()
		handle := store.Handle("0", 1, memFaults{})
		p := NewPoller(handle, RealTime(), Etcd)
		member := func(comm keys) *Member {
			m := &Member{cfg: Config{Poller: p}, keys: comm, slot: 1, wake: make(chan struct{}, 1)}
			p.add(m)
			return m
		}
		m, another := member("comm"), member("another")
		p.remove(another)
		time.Sleep(time.Minute) // simulated
		if n := handle.Count("list"); n > 61 {
			t.Errorf("%d listings in an idle minute", n)
		}
		began := time.Now()
		store.Put(handle, "open/comm.1", []byte("{}"))
		<-m.wake
		if took := time.Since(began); took > Etcd.IdlePoll || m.newest.Load() != 1 {
			t.Errorf("a proposal is known after %v", took)
		}
		p.remove(m)
		before := handle.Count("list")
		time.Sleep(time.Minute) // simulated
		if n := handle.Count("list"); n > before {
			t.Errorf("%d listings after the last member", n-before)
		}
	})
}
