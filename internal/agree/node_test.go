package agree

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree/memstore"
)

// place gives the rank the store of its machine.
func (w *world) place(r *rank) {
	i := r.id / w.node
	for len(w.nodes) <= i {
		s := memstore.New()
		s.NoRecord = ErrNoRecord
		w.nodes = append(w.nodes, s)
	}
	r.local = w.nodes[i].Handle(fmt.Sprint("local ", r.id), w.seed, memstore.Faults{Delay: time.Millisecond})
}

// lead runs a leader on each machine: its first rank, and after that has crashed
// the next one, as a file lock would have it.
func (w *world) lead() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := range w.nodes {
		all.Go(func() {
			time.Sleep(time.Duration(500 + i))
			for _, r := range w.ranks {
				if r.id/w.node != i || ctx.Err() != nil {
					continue
				}
				term, stop := context.WithCancel(ctx)
				over := make(chan struct{})
				go func() {
					defer close(over)
					NewNode(r.handle, r.local).Lead(term, RealTime(), w.timing)
				}()
				for ctx.Err() == nil && !r.isCrashed() {
					time.Sleep(997 * time.Millisecond)
				}
				stop()
				<-over
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

func TestNodesAgree(t *testing.T) {
	for _, timing := range []Timing{Local, Shared} {
		try(t, 30, func(seed uint64) plan {
			p := usual(seed)
			p.ranks, p.node, p.timing, p.calls, p.longest = 7, 3, timing, 3000, 0
			p.saved(time.Second, "B", int(seed)%7)
			p.saved(20*time.Second, "C")
			return p
		}, endsOn("C"))
	}
}

func TestNodesMisaligned(t *testing.T) {
	try(t, 20, func(seed uint64) plan {
		p := usual(seed)
		p.ranks, p.node, p.longest, p.calls = 6, 3, 0, 1500
		p.phantom = once(4, 10)
		p.saved(time.Second, "B")
		return p
	}, func(t *testing.T, w *world) {
		endsOn("A")(t, w)
		noticed := false
		for k := uint64(1); k < 9; k++ {
			noticed = noticed || w.decision(k).Abort == Misaligned
		}
		if !noticed {
			t.Error("nobody has noticed")
		}
	})
}

func TestNodesLoseTheirLeader(t *testing.T) {
	for at := 900; at < 4000; at += 100 * thin {
		try(t, 1, func(seed uint64) plan {
			p := usual(seed + uint64(at))
			p.ranks, p.node, p.longest, p.calls = 6, 3, 0, 1000
			p.saved(time.Second, "B", 1)
			p.events = append(p.events, event{time.Duration(at) * time.Millisecond, func(w *world) { w.crash(0) }})
			return p
		}, func(t *testing.T, w *world) {
			for _, r := range w.ranks {
				if r.id != 0 && !r.ended {
					t.Errorf("rank %d did not end", r.id)
				}
			}
		})
	}
}
