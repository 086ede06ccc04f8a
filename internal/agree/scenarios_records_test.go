package agree

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// vanishing removes what drop says when a record with part in its key has landed, one
// record after the other within spread.
func vanishing(seed uint64, part string, spread time.Duration, drop func(key string) bool) plan {
	p := usual(seed)
	p.calls, p.longest, p.mayStall, p.vanishes = 1500, 0, true, true
	p.saved(time.Second, "B")
	p.saved(8*time.Second, "C")
	gone := false
	p.landed = func(w *world, _, key string) {
		if gone || !strings.Contains(key, part) {
			return
		}
		gone = true
		chance := rand.New(rand.NewPCG(seed, 43))
		time.AfterFunc(time.Duration(chance.Int64N(int64(20*time.Millisecond))), func() {
			w.check.trace("records vanish")
			for _, key := range slices.Sorted(slices.Values(w.store.Keys(""))) {
				if drop(key) {
					time.AfterFunc(time.Duration(chance.Int64N(int64(spread+1))), func() { w.store.Delete(key) })
				}
			}
		})
	}
	return p
}

// Somebody empties the rendezvous, in part or as a whole, at once or little by little.
func TestScenario45RecordsVanish(t *testing.T) {
	t.Parallel()
	spreads := []time.Duration{0, 5 * time.Millisecond, time.Second}
	if testing.Short() {
		spreads = spreads[1:2]
	}
	failed, frozen := 0, 0
	for _, part := range []string{"p/comm.1", "/t/1", "/a/1", "/m/1", "/d/1"} {
		for what, drop := range map[string]func(string) bool{
			"all":       func(string) bool { return true },
			"decisions": func(key string) bool { return strings.Contains(key, "/d/") },
			"tokens":    func(key string) bool { return strings.Contains(key, "/t/") },
			"slots":     func(key string) bool { return strings.Contains(key, "/slot/") },
			"proposals": func(key string) bool { return strings.HasPrefix(key, "p/") },
			"acks":      func(key string) bool { k, _ := ParseKey(key); return k.isReport() },
		} {
			for _, spread := range spreads {
				t.Run(strings.Join([]string{part, what, spread.String()}, " "), func(t *testing.T) {
					try(t, 3, func(seed uint64) plan { return vanishing(seed, part, spread, drop) },
						func(t *testing.T, w *world) {
							for _, r := range w.ranks {
								if errors.Is(r.callErr, ErrStalled) {
									failed++
								}
								if r.logged("has emptied or replaced it; this communicator keeps") {
									frozen++
								}
							}
						})
				})
			}
		}
	}
	if failed == 0 || frozen == 0 {
		t.Errorf("%d ranks failed, %d keep their version: not all is tried", failed, frozen)
	}
}

// An older copy of the rendezvous takes its place.
func TestScenario46OlderCopyRestored(t *testing.T) {
	t.Parallel()
	parts := []string{"/t/1", "/a/1", "/m/1/0", "/m/1/2", "/d/1"}
	if testing.Short() {
		parts = parts[1:3]
	}
	for _, part := range parts {
		for _, later := range []time.Duration{time.Millisecond, 30 * time.Millisecond, 100 * time.Millisecond,
			700 * time.Millisecond} {
			try(t, 3, func(seed uint64) plan {
				p := usual(seed)
				p.calls, p.longest, p.mayStall, p.vanishes = 1500, 0, true, true
				p.saved(time.Second, "B")
				copied := false
				p.landed = func(w *world, _, key string) {
					if copied || !strings.Contains(key, part) {
						return
					}
					copied = true
					time.AfterFunc(time.Nanosecond, func() {
						old := w.store.Copy()
						time.AfterFunc(later, func() {
							w.check.trace("an older copy is restored")
							w.store.Restore(old)
						})
					})
				}
				return p
			}, nil)
		}
	}
	t.Run("between two readers of the decision", func(t *testing.T) {
		// The proposer has read the commit. The others find the token again, and make an
		// abort of it that nobody may obey.
		stalled := 0
		try(t, 30, func(seed uint64) plan {
			p := usual(seed)
			p.calls, p.longest, p.mayStall, p.vanishes = 500, 0, true, true
			p.saved(time.Second, "B", 0)
			var old atomic.Pointer[map[string][]byte]
			var blind atomic.Bool
			restored := false
			p.landed = func(w *world, _, key string) {
				switch {
				case restored:
				case strings.Contains(key, "/m/1/"):
					time.AfterFunc(time.Nanosecond, func() {
						all := w.store.Copy()
						old.Store(&all)
					})
				case strings.Contains(key, "/d/1"):
					restored = true
					blind.Store(true)
					time.AfterFunc(100*time.Millisecond, func() {
						w.store.Restore(*old.Load())
						blind.Store(false)
					})
				}
			}
			p.tamper = func(rank int, op memOp, f memFate) memFate {
				f.Lost = f.Lost || rank != 0 && op.Kind == "list" && op.Key == "c/comm/d" && blind.Load()
				return f
			}
			return p
		}, func(t *testing.T, w *world) {
			for _, r := range w.ranks {
				if errors.Is(r.callErr, ErrStalled) && w.rank(0).last() == "B" {
					stalled++
				}
			}
		})
		if stalled == 0 {
			t.Error("no rank was kept from the commit that the proposer has read")
		}
	})
}

// A rank that knows of another version than its own file's, and cannot get it, must not
// start.
func TestScenario47OtherVersionOutOfReach(t *testing.T) {
	t.Parallel()
	try(t, 10, func(seed uint64) plan {
		p := usual(seed)
		p.own = func(rank int) string { return []string{"A", "B", "A"}[rank] }
		p.joinAt = func(rank int) time.Duration { return time.Duration(rank) * time.Second }
		p.tamper = func(_ int, op memOp, f memFate) memFate {
			if strings.HasPrefix(op.Key, "blob/") {
				f.Err = ErrRefused
			}
			return f
		}
		return p
	}, func(t *testing.T, w *world) {
		if err := w.rank(1).joinErr; !errors.Is(err, ErrOtherVersion) {
			t.Errorf("rank 1: %v", err)
		}
		for _, id := range []int{0, 2} {
			if r := w.rank(id); r.joinErr != nil || !r.ended || r.last() != "A" {
				t.Errorf("rank %d: %v %v", id, r.joinErr, r.last())
			}
		}
	})
}

// A store that answers and takes no record of the start version: no rank can know what
// the others start on.
func TestScenario48StoreIsFull(t *testing.T) {
	t.Parallel()
	full := func(seed uint64, at string) plan {
		p := usual(seed)
		p.own = func(rank int) string { return string(rune('A' + rank)) }
		p.tamper = func(_ int, op memOp, f memFate) memFate {
			if op.Kind == "put" && strings.Contains(op.Key, at) {
				f.Err = ErrRefused
			}
			return f
		}
		return p
	}
	t.Run("start", func(t *testing.T) {
		try(t, 5, func(seed uint64) plan { return full(seed, "/init") }, func(t *testing.T, w *world) {
			for _, r := range w.ranks {
				if !errors.Is(r.joinErr, ErrRefused) {
					t.Errorf("rank %d: %v", r.id, r.joinErr)
				}
			}
		})
	})
	t.Run("at the barrier", func(t *testing.T) {
		try(t, 5, func(seed uint64) plan {
			p := full(seed, "/m/1")
			p.own = nil
			p.calls = 1000
			p.saved(time.Second, "B")
			return p
		}, endsOn("B"))
	})
	t.Run("id reused", func(t *testing.T) {
		// The first communicator has ended, so this is a new one.
		try(t, 5, func(seed uint64) plan {
			p := usual(seed)
			p.comms = 2
			p.joinAt = func(rank int) time.Duration { return time.Duration(rank/3) * 30 * time.Second }
			p.tamper = func(rank int, op memOp, f memFate) memFate {
				if rank >= 3 && op.Kind == "put" {
					f.Err = ErrRefused
				}
				return f
			}
			return p
		}, func(t *testing.T, w *world) {
			for _, r := range w.ranks[3:] {
				if !errors.Is(r.joinErr, ErrRefused) {
					t.Errorf("rank %d: %v", r.id, r.joinErr)
				}
			}
		})
	})
}

// A change is aborted before a rank comes to the barrier, and the reply that would tell it
// so is lost: nothing is wrong with the records, and the next try comes.
func TestScenario49AbortedOutOfSight(t *testing.T) {
	t.Parallel()
	try(t, 10, func(seed uint64) plan {
		p := usual(seed)
		p.calls = 1000
		comes, looks := false, 0 // to n*, and from then on
		p.tamper = func(rank int, op memOp, f memFate) memFate {
			switch {
			case rank == 1 && op.Kind == "put" && strings.Contains(op.Key, "/a/1/"):
				f.Lost = true // the proposer finds the others slow
			case rank == 2 && op.Kind == "mark" && strings.Contains(op.Key, "/t/1/") && op.Nth > 0:
				comes = true
			case rank == 2 && op.Kind == "list" && op.Key == "c/comm/d":
				if f.Lost = looks == 0; comes {
					looks++
				}
			}
			return f
		}
		p.saved(time.Second, "B", 0)
		return p
	}, endsOn("B"))
}

// Whoever loses the race for a proposal takes its own token back: ranks that see the same
// file all try, and would leave one behind each, at every change.
func TestScenario50TokensOfLosers(t *testing.T) {
	t.Parallel()
	raced := 0
	for _, node := range []int{0, 3} {
		try(t, 20, func(seed uint64) plan {
			p := usual(seed)
			p.node = node
			p.timing.MinLead = 2
			p.longest = 0
			p.landed = func(w *world, _, key string) {
				if strings.Contains(key, "/t/") {
					raced++
				}
			}
			p.saved(time.Second, "B")
			return p
		}, func(t *testing.T, w *world) {
			if left := w.store.Keys("c/comm/t/"); len(left) > 0 {
				t.Errorf("%d proposals leave the tokens %q", w.proposals(), left)
			}
			raced -= w.proposals()
		})
	}
	if raced == 0 {
		t.Error("no rank lost a race")
	}
}

// The store is lost at the moment when a rank has claimed its slot: its init fails, and the others do not change
// without it.
func TestScenario51StoreLostWithTheSlot(t *testing.T) {
	t.Parallel()
	try(t, 5, func(seed uint64) plan {
		p := usual(seed)
		p.tamper = func(rank int, op memOp, f memFate) memFate {
			f.Lost = f.Lost || rank == 1 && op.Kind == "mark"
			return f
		}
		p.saved(20*time.Second, "B")
		return p
	}, func(t *testing.T, w *world) {
		if err := w.rank(1).joinErr; !errors.Is(err, ErrUnreachable) {
			t.Errorf("init: %v", err)
		}
		for _, id := range []int{0, 2} {
			if r := w.rank(id); !r.ended || r.last() != "A" {
				t.Errorf("rank %d ends on %q", id, r.last())
			}
		}
	})
}
