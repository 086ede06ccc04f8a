package agree

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// oneApart is a plan in which one of three ranks makes a call of its own about where the barrier is, while a shape
// comes three times in a row, so that the calls of all look alike for a while.
func oneApart(seed uint64) plan {
	p := usual(seed)
	p.ranks, p.like = 3, true
	p.shape = func(call int) (int, uint64) { return 4, uint64(call/3) << 20 }
	p.phantom = nearBarrier(1, seed)
	p.saved(time.Second, "B")
	return p
}

// Ranks of one thread cannot wait at the same time: the first one arrives for the others.
func TestScenario43RanksOfOneThread(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ ranks, thread int }{{4, 4}, {8, 4}} {
		try(t, 20, func(seed uint64) plan {
			p := usual(seed)
			p.ranks, p.thread = c.ranks, c.thread
			p.longest = 2 * time.Second
			p.saved(time.Second, "B")
			return p
		}, endsOn("B"))
	}
	t.Run("in groups", func(t *testing.T) {
		// Only at the first call of a group can all ranks of a thread arrive together; each
		// try finds it with a chance of a third.
		switched := 0
		try(t, 20, func(seed uint64) plan {
			p := usual(seed)
			p.ranks, p.thread, p.group, p.calls = 6, 2, 3, 3000
			p.longest = 2 * time.Second
			p.saved(time.Second, "B")
			return p
		}, func(t *testing.T, w *world) { switched += len(w.rank(0).switches) })
		if switched < 10/thin {
			t.Errorf("%d of 20 changes came", switched)
		}
	})
	for _, group := range []int{1, 2} {
		t.Run(fmt.Sprintf("one of them apart, groups of %d", group), func(t *testing.T) {
			apart := 0
			try(t, 64, func(seed uint64) plan {
				p := oneApart(seed)
				p.thread, p.group, p.longest = 2, group, 2*time.Second
				return p
			}, func(t *testing.T, w *world) {
				want := "B" // the barrier came first
				if w.rank(1).phantoms > 0 {
					want = "A"
					apart++
				}
				endsOn(want)(t, w)
			})
			if apart < 10/thin {
				t.Errorf("%d ranks went apart", apart)
			}
		})
	}
	t.Run("a call of one of them at the barrier", func(t *testing.T) {
		// It has arrived by proxy, and its own call is one that nobody else makes. That is
		// harmless, because the collective that all make comes later.
		try(t, 20, func(seed uint64) plan {
			p := usual(seed)
			p.ranks, p.thread = 4, 2
			p.phantom = func(r *rank, _ int) bool {
				r.m.mu.Lock()
				defer r.m.mu.Unlock()
				return r.id%2 == 1 && r.phantoms == 0 && r.m.change.arrival.byProxy
			}
			p.saved(time.Second, "B")
			return p
		}, func(t *testing.T, w *world) {
			endsOn("B")(t, w)
			if w.rank(1).phantoms+w.rank(3).phantoms == 0 {
				t.Error("nobody made such a call")
			}
		})
	})
}

// Ranks of one process that have threads of their own arrive each by itself.
func TestScenario43RanksOfOneProcess(t *testing.T) {
	t.Parallel()
	try(t, 20, func(seed uint64) plan {
		p := usual(seed)
		p.ranks, p.process = 4, 2
		p.saved(time.Second, "B")
		return p
	}, endsOn("B"))
	t.Run("one of them apart", func(t *testing.T) {
		try(t, 128, func(seed uint64) plan {
			p := oneApart(seed)
			p.process, p.ahead = 2, 2
			return p
		}, nil)
	})
}

// Where all calls are alike, ranks change only if they are told to.
func TestScenario44AllCallsAlike(t *testing.T) {
	t.Parallel()
	for _, uniform := range []bool{false, true} {
		want := map[bool]string{false: "A", true: "B"}[uniform]
		try(t, 10, func(seed uint64) plan {
			p := usual(seed)
			p.calls = 2000
			p.uniform = uniform
			p.shape = func(int) (int, uint64) { return 4, 1 << 20 }
			p.saved(time.Second, "B")
			return p
		}, func(t *testing.T, w *world) {
			endsOn(want)(t, w)
			if r := w.rank(0); !uniform && (!r.logged("all calls are alike") || r.slows > 8*(barrierWithin+2)) {
				t.Errorf("%d times in AtTrigger, %q", r.slows, r.log)
			}
		})
	}
}

// While a rank reads the decision, it arrives by proxy, and then a decision appears that was
// not made of the proposal's token: the rank may have been counted by now.
func TestScenario52ForeignDecisionAfterProxy(t *testing.T) {
	t.Parallel()
	try(t, 30, func(seed uint64) plan {
		p := usual(seed)
		p.ranks, p.thread, p.vanishes, p.longest = 2, 2, true, 0
		p.saved(time.Second, "B")
		p.landed = func(w *world, _, key string) {
			if strings.Contains(key, "/m/1/") {
				time.AfterFunc(time.Nanosecond, func() { w.store.Put(nil, "c/comm/d/1.stall.0.1", nil) })
			}
		}
		p.tamper = func(rank int, op memOp, f memFate) memFate {
			switch {
			case op.Kind == "list" && op.Key == "c/comm/d" && rank == 1:
				f.Request = 150 * time.Millisecond
			case op.Kind == "move" && rank == 0: // the commit comes after what rank 1 reads
				f.Request = 200 * time.Millisecond
			}
			return f
		}
		return p
	}, endsOn("B"))
}
