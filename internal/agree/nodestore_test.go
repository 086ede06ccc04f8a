package agree

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// giveNodeStore gives the rank the store of its node.
func (w *world) giveNodeStore(r *rank) {
	i := r.id / w.node
	for len(w.nodes) <= i {
		w.nodes = append(w.nodes, newMemStore())
	}
	r.local = w.nodes[i].Handle(fmt.Sprint("local ", r.id), w.seed, memFaults{Delay: time.Millisecond})
}

// aggregate runs an aggregator on each node: its first rank, and after that has crashed
// the next one, as a file lock would have it.
func (w *world) aggregate() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for i := range w.nodes {
		all.Go(func() {
			time.Sleep(time.Duration(500 + i)) // simulated
			for _, r := range w.ranks {
				if r.id/w.node != i || ctx.Err() != nil {
					continue
				}
				term, stop := context.WithCancel(ctx)
				over := make(chan struct{})
				go func() {
					defer close(over)
					NewNodeStore(r.handle, r.local).Aggregate(term, RealTime(), w.timing)
				}()
				for ctx.Err() == nil && !r.isCrashed() {
					time.Sleep(997 * time.Millisecond) // simulated
				}
				stop()
				<-over
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

func TestNodesAgree(t *testing.T) {
	t.Parallel()
	for _, timing := range []Timing{Local, Shared} {
		try(t, 30, func(seed uint64) plan {
			p := usual(seed)
			p.ranks, p.node, p.timing, p.calls, p.longest = 7, 3, timing, 3000, 0
			p.saved(time.Second, "B", int(seed)%7)
			p.saved(20*time.Second, "C")
			return p
		}, func(t *testing.T, w *world) {
			endsOn("C")(t, w)
			for i, node := range append(w.nodes, w.store) {
				for _, key := range node.Keys("c/") {
					if k, _ := ParseKey(key); k.isReport() {
						t.Errorf("store %d keeps %s of a change that is decided", i, key)
					}
				}
			}
		})
	}
}

func TestNodesMisaligned(t *testing.T) {
	t.Parallel()
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

func TestNodesLoseTheirAggregator(t *testing.T) {
	t.Parallel()
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

// Where the decision that was first could not be mirrored, a rank must not take the missing
// token for a sign that records have vanished.
func TestNodeStoreMoveTellsWhenItCannotMirror(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, local := newMemStore(), newMemStore()
		const decision = "c/comm/d/1.late.5.1"
		shared.Put(nil, decision, nil)
		fails := map[string]bool{}
		h := shared.Handle("rank", 1, memFaults{})
		h.Tamper = func(op memOp, f memFate) memFate {
			f.Lost = fails[op.Kind]
			return f
		}
		n := NewNodeStore(h, local.Handle("local", 1, memFaults{}))
		for _, kind := range []string{"list", "mark"} {
			fails[kind] = true
			if err := n.Move(t.Context(), "c/comm/t/1/0", "c/comm/d/1.stall.0.2"); err == nil ||
				errors.Is(err, ErrNoRecord) {
				t.Errorf("%s fails: %v", kind, err)
			}
			fails[kind] = false
		}
		if err := n.Move(t.Context(), "c/comm/t/1/0", "c/comm/d/1.stall.0.2"); !errors.Is(err, ErrNoRecord) {
			t.Error(err)
		}
		if _, mirrored := local.Lookup(decision); !mirrored {
			t.Error("the decision is not mirrored")
		}
	})
}

// Most proposals of a job are of communicators on other nodes, and most of the others are
// decided: the aggregator must not ask about them for ever, nor remember what is gone.
func TestAggregatorForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, local := newMemStore(), newMemStore()
		proposal := encode(Proposal{VersionID: VersionID{Content: "x", EffectDigest: "x"}, Check: 1, Switch: 2})
		for i := range 50 {
			shared.Put(nil, keys(fmt.Sprint("elsewhere", i)).open(1), nil)
		}
		own := keys("own")
		shared.Put(nil, own.proposal(1), proposal)
		shared.Put(nil, own.open(1), nil)
		shared.Put(nil, VersionID{Content: "x"}.Key(), []byte("x"))
		shared.Put(nil, own.dir(kindDecision)+"/1.late.5.1", nil)
		local.Put(nil, own.slot(0), []byte("rank"))
		l, s := local.Handle("local", 1, memFaults{}), shared.Handle("shared", 1, memFaults{})
		a := &aggregator{node: NewNodeStore(s, l), clock: RealTime(), timing: Local, changes: map[string]*nodeChange{}}
		for range 2 {
			a.findProposals(t.Context(), true)
			time.Sleep(JoinLimit + time.Second) // simulated
		}
		if c := a.changes["own.1"]; c == nil || !c.mirrored || !a.takeDecision(t.Context(), c) {
			t.Fatalf("the node's own change: %+v", c)
		}
		a.changes["own.1"].over = true
		before := l.Count("list")
		a.findProposals(t.Context(), true)
		if asked := l.Count("list") - before; asked > 1 {
			t.Errorf("%d listings for proposals that do not concern this node any more", asked)
		}
		s.SetDown(true, false)
		a.findProposals(t.Context(), true)
		if c := a.changes["own.1"]; c == nil || !c.listed {
			t.Errorf("the store was away, and what was known is forgotten: %+v", c)
		}
		s.SetDown(false, false)
		for _, key := range shared.Keys("open/") {
			shared.Delete(key)
		}
		local.Put(nil, own.open(2), nil) // of an aggregator that has crashed
		a.findProposals(t.Context(), true)
		if n := len(a.changes); n > 0 {
			t.Errorf("%d proposals are remembered that are gone", n)
		}
		if left := local.Keys("open/"); len(left) > 0 {
			t.Errorf("the mirror still shows %q", left)
		}
	})
}

// A change whose proposal somebody has deleted costs no more than idleness; its decision is
// mirrored if it comes all the same.
func TestAggregatorOfAVanishedProposal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, local := newMemStore(), newMemStore()
		own := keys("own")
		shared.Put(nil, own.proposal(1), encode(Proposal{VersionID: VersionID{Content: "x", EffectDigest: "x"}, Check: 1, Switch: 2}))
		shared.Put(nil, own.open(1), nil)
		shared.Put(nil, VersionID{Content: "x"}.Key(), []byte("x"))
		local.Put(nil, own.slot(0), []byte("rank"))
		s := shared.Handle("shared", 1, memFaults{})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { NewNodeStore(s, local.Handle("local", 1, memFaults{})).Aggregate(ctx, RealTime(), Local) })
		time.Sleep(10 * time.Second) // simulated
		shared.Delete(own.open(1))
		time.Sleep(time.Second) // simulated
		before := s.Count("list")
		time.Sleep(time.Minute) // simulated
		if asked, idle := s.Count("list")-before, int(time.Minute/Local.IdlePoll); asked > 2*idle {
			t.Errorf("%d listings in a minute, %d without a change", asked, idle)
		}
		shared.Put(nil, own.dir(kindDecision)+"/1.late.5.1", nil)
		time.Sleep(2 * time.Second) // simulated
		if len(local.Keys(own.dir(kindDecision)+"/")) != 1 {
			t.Error("the decision is not mirrored")
		}
		cancel()
		running.Wait()
	})
}
