package agree

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestScenario22FinalizeAtEveryStep(t *testing.T) {
	t.Parallel()
	for last := 40; last < 160; last += thin {
		try(t, 1, func(seed uint64) plan {
			p := usual(seed + uint64(last))
			p.calls = 300
			p.saved(time.Second, "B", last%3)
			p.calln = func(rank, calls int) int {
				if rank == 1 || last%2 == 0 {
					return last
				}
				return calls
			}
			return p
		}, func(t *testing.T, w *world) {
			for _, r := range w.ranks {
				if !r.ended {
					t.Errorf("rank %d did not end", r.id)
				}
			}
		})
	}
}

// NCCL aborts a communicator while a call of it may wait: from then on a call that needs the others'
// decision fails at once, at whatever step it comes.
func TestEndWaitAtEveryStep(t *testing.T) {
	t.Parallel()
	failed := 0
	for last := 40; last < 160; last += thin {
		try(t, 1, func(seed uint64) plan {
			p := usual(seed + uint64(last))
			p.calls = 300
			p.saved(time.Second, "B")
			p.before = func(w *world, r *rank, call int) {
				if r.id == 1 && call == last { // some milliseconds later, when it may wait
					time.AfterFunc(time.Duration(r.chance.IntN(20_000_000)), r.joined.EndWait)
				}
			}
			return p
		}, func(t *testing.T, w *world) {
			for _, r := range w.ranks {
				switch {
				case r.id == 1 && errors.Is(r.callErr, ErrClosed):
					failed++
				case !r.ended:
					t.Errorf("rank %d did not end: %v", r.id, r.callErr)
				}
			}
		})
	}
	if failed == 0 {
		t.Error("no call came to need a decision")
	}
}

func TestScenario23IdleThenBurst(t *testing.T) {
	t.Parallel()
	try(t, 5, func(seed uint64) plan {
		p := usual(seed)
		// The leads that follow are long enough for another such burst.
		p.calls = 9000
		p.saved(30*time.Second, "B")
		p.pace = func(rank, call int, r *rand.Rand) time.Duration {
			switch {
			case call == 50:
				return 100 * time.Second
			case call > 50 && call < 1000:
				return 100 * time.Microsecond
			}
			return every(20*time.Millisecond)(rank, call, r)
		}
		return p
	}, endsOn("B"))
}

func TestScenario24NextEditWhileSwitchPending(t *testing.T) {
	t.Parallel()
	try(t, 30, func(seed uint64) plan {
		p := usual(seed)
		p.calls = 2000
		p.timing.MinLead = 200
		p.saved(time.Second, "B")
		p.landed = func(w *world, _, key string) {
			if strings.Contains(key, "/d/1.") {
				time.AfterFunc(100*time.Millisecond, func() { w.save(1, "C") })
			}
		}
		return p
	}, func(t *testing.T, w *world) {
		endsOn("C")(t, w)
		for _, r := range w.ranks {
			if len(r.switches) != 2 {
				t.Errorf("rank %d switched at %v", r.id, r.switches)
			}
		}
	})
}

func TestScenario25CommitInFlightAtS(t *testing.T) {
	t.Parallel()
	commits, aborts := 0, 0
	try(t, 100, func(seed uint64) plan {
		p := usual(seed)
		p.calls = 1500
		p.saved(time.Second, "B", 0)
		// A rank waits for the others for 500 ms.
		p.tamper = delayed("move", "/d/1", 0, 300*time.Millisecond+time.Duration(seed*3)*time.Millisecond)
		p.longest = 3 * time.Second
		return p
	}, func(t *testing.T, w *world) {
		endsOn("B")(t, w)
		if w.decision(1).Commit {
			commits++
		} else {
			aborts++
		}
	})
	if commits == 0 || aborts == 0 {
		t.Errorf("%d commits, %d aborts: the race is not tried", commits, aborts)
	}
}

// permutations calls f with each order of 0..n-1.
func permutations(n int, f func(order []int)) {
	order := make([]int, 0, n)
	var extend func()
	extend = func() {
		if len(order) == n {
			f(order)
			return
		}
		for i := range n {
			if !slices.Contains(order, i) {
				order = append(order, i)
				extend()
				order = order[:len(order)-1]
			}
		}
	}
	extend()
}

func TestScenario26DuplicateCommID(t *testing.T) {
	t.Parallel()
	// The second communicator comes before, between and after the first, and
	// before, during and after its change.
	gaps := []time.Duration{time.Microsecond, 20 * time.Millisecond, 900 * time.Millisecond}
	if testing.Short() {
		gaps = gaps[1:2]
	}
	for _, gap := range gaps {
		permutations(4, func(order []int) {
			order = slices.Clone(order)
			try(t, 2, func(seed uint64) plan {
				p := usual(seed)
				p.comms, p.ranks = 2, 2
				p.joinAt = func(rank int) time.Duration { return time.Duration(slices.Index(order, rank)) * gap }
				p.saved(time.Second, "B", 0)
				p.saved(time.Second, "C", 2)
				return p
			}, func(t *testing.T, w *world) {
				for _, r := range w.ranks {
					if refused := r.joinErr != nil && strings.Contains(r.joinErr.Error(), "changed its policy"); !r.ended && !refused {
						t.Errorf("rank %d did not end: %v %v", r.id, r.joinErr, r.callErr)
					}
				}
			})
		})
	}
}

// late is a second communicator of the id, which joins when the first has changed and is not over.
func late(seed uint64) plan {
	p := usual(seed)
	p.comms = 2
	p.joinAt = func(rank int) time.Duration { return time.Duration(rank/3) * 30 * time.Second }
	p.calln = func(rank, calls int) int { return calls * (1 + 3*(1-rank/3)) }
	return p
}

// The communicator has ended: the next one of its id begins anew, and can change.
func TestScenario27CommIDReusedAfterFinalize(t *testing.T) {
	t.Parallel()
	for _, node := range []int{0, 2} {
		try(t, 30, func(seed uint64) plan {
			p := usual(seed)
			p.comms, p.node, p.longest = 2, node, 0
			p.joinAt = func(rank int) time.Duration { return time.Duration(rank/3) * 30 * time.Second }
			p.own = func(rank int) string { return []string{"A", "D"}[rank/3] }
			p.saved(time.Second, "B", 0)
			p.saved(33*time.Second, "C", 4)
			return p
		}, func(t *testing.T, w *world) {
			for _, r := range w.ranks {
				if want := []string{"B", "C"}[r.comm]; !r.ended || r.last() != want {
					t.Errorf("rank %d: ended %v on version %q, want %q (%v)", r.id, r.ended, r.last(), want, r.callErr)
				}
			}
		})
	}
}

// The first communicator has changed its policy: ranks of the second one may hold slots and obey that, so its duplicates
// must not start. Before any change they start on the first one's version, which stays.
func TestScenario26DuplicateJoinsLate(t *testing.T) {
	t.Parallel()
	for save, want := range map[time.Duration]string{time.Second: "B", 33 * time.Second: "A"} {
		try(t, 30, func(seed uint64) plan {
			p := late(seed)
			p.saved(save, "B", 0)
			p.saved(34*time.Second, "C", 4)
			return p
		}, func(t *testing.T, w *world) {
			for _, r := range w.ranks {
				refused := r.joinErr != nil && strings.Contains(r.joinErr.Error(), "changed its policy")
				if errors.Is(r.joinErr, ErrUnreachable) {
					t.Errorf("rank %d blames the store: %v", r.id, r.joinErr)
				}
				if refused != (r.comm == 1 && want == "B") || !refused && r.last() != want {
					t.Errorf("saved at %v: rank %d: %v, the last call by %q", save, r.id, r.joinErr, r.last())
				}
				if r.comm == 1 && !refused && !r.logged("WARN another communicator has the id") {
					t.Errorf("rank %d does not warn", r.id)
				}
			}
		})
	}
}

func TestScenario28SlotNeverClaimed(t *testing.T) {
	t.Parallel()
	try(t, 10, func(seed uint64) plan {
		p := usual(seed)
		p.absent = map[int]bool{2: true}
		p.saved(time.Second, "B")
		return p
	}, func(t *testing.T, w *world) {
		endsOn("A")(t, w)
		if w.proposals() > 0 || !w.rank(0).logged("2 of 3 ranks have joined") {
			t.Errorf("%d proposals", w.proposals())
		}
	})
}

func TestScenario29FileReplacedDuringInit(t *testing.T) {
	t.Parallel()
	for which := range 8 {
		try(t, 5, func(seed uint64) plan {
			p := usual(seed)
			p.own = func(rank int) string { return []string{"A", "B"}[which>>rank&1] }
			for rank := range 3 {
				if p.own(rank) == "A" {
					p.saved(200*time.Millisecond, "B", rank)
				}
			}
			return p
		}, endsOn("B"))
	}
}

// A rank whose store is lost or slow at init may be the only one that has read what was saved just before, or not. It
// joins within the limit, or fails init: it never starts on a version of its own.
func TestScenario30StoreDownAtInit(t *testing.T) {
	t.Parallel()
	const back = JoinLimit / 2
	for _, c := range []struct {
		name  string
		lose  func(p *plan)
		joins bool // and all others do
	}{
		{"it fails", func(p *plan) { p.events = append(p.events, event{0, func(w *world) { w.lose(1, false) }}) },
			false},
		{"it hangs", func(p *plan) { p.events = append(p.events, event{0, func(w *world) { w.lose(1, true) }}) },
			false},
		{"it is back soon", func(p *plan) {
			p.events = append(p.events, event{0, func(w *world) { w.lose(1, true) }}, event{back, func(w *world) {
				w.regain(1)
			}})
		}, true},
		{"it is slow", func(p *plan) {
			p.tamper = func(rank int, _ memOp, f memFate) memFate {
				if rank == 1 {
					f.Request = 60*time.Millisecond + time.Duration(p.seed)*JoinLimit/240
				}
				return f
			}
		}, true},
		{"replies are lost", func(p *plan) {
			p.tamper = func(rank int, _ memOp, f memFate) memFate {
				f.ReplyLost = f.ReplyLost || rank == 1
				return f
			}
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			started := map[string]bool{}
			try(t, 20, func(seed uint64) plan {
				p := usual(seed)
				// a save comes in between
				p.own = func(rank int) string { return []string{"A", "B"}[(rank+int(seed)/thin)%2] }
				p.ahead, p.longest = 0, 0
				c.lose(&p)
				return p
			}, func(t *testing.T, w *world) {
				started[w.rank(0).decided[0]] = true
				for _, r := range w.ranks {
					if want := c.joins || r.id != 1; r.ended != want || !want && !errors.Is(r.joinErr, ErrUnreachable) {
						t.Errorf("rank %d: made all calls: %v, init: %v", r.id, r.ended, r.joinErr)
					}
				}
			})
			if c.joins && len(started) < 2 {
				t.Errorf("the ranks started on %v only", started)
			}
		})
	}
}
