package agree

import (
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree/memstore"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/golden"
)

// thin keeps one simulation of so many: the nightly run makes all, and -short few, as for the race detector, which
// makes them slow.
var thin = 4

func TestMain(m *testing.M) {
	flag.Parse()
	switch {
	case testing.Short():
		thin = 10
	case os.Getenv(golden.EnvNightly) != "":
		thin = 1
	}
	os.Exit(m.Run())
}

// usual is a healthy job: three ranks, a call every 20 ms on average, which a GPU runs.
func usual(seed uint64) plan {
	return plan{seed: seed, ranks: 3, calls: 500, timing: Local, pace: every(20 * time.Millisecond), ahead: 10,
		faults: func(int) memstore.Faults { return memstore.Faults{Delay: 5 * time.Millisecond} },
		// Until the others come or the wait for them ends, and some round trips.
		longest: time.Second}
}

func every(mean time.Duration) func(int, int, *rand.Rand) time.Duration {
	return func(_, _ int, r *rand.Rand) time.Duration {
		return mean/2 + time.Duration(r.Float64()*float64(mean))
	}
}

// saved is a save that ranks see at the same moment; all if none are named.
func (p *plan) saved(at time.Duration, content string, ranks ...int) {
	if ranks == nil {
		for rank := range p.ranks * max(1, p.comms) {
			ranks = append(ranks, rank)
		}
	}
	for _, rank := range ranks {
		p.saves = append(p.saves, save{at, rank, content})
	}
}

// try simulates a plan under many seeds, thinned, and looks at what came of each.
func try(t *testing.T, seeds int, make func(seed uint64) plan, check func(t *testing.T, w *world)) {
	t.Helper()
	for seed := uint64(0); seed < uint64(seeds); seed += uint64(thin) {
		w := simulate(t, make(seed))
		if check != nil && !t.Failed() {
			check(t, w)
		}
		if w.report(t, false); t.Failed() {
			lines, _ := w.check.story()
			t.Fatalf("seed %d:\n%s", seed, strings.Join(lines, "\n"))
		}
	}
}

// last is the version of the rank's last call.
func (r *rank) last() string {
	if len(r.decided) == 0 {
		return ""
	}
	return r.decided[len(r.decided)-1]
}

// endsOn expects that all ranks made all calls and the last ones by a version.
func endsOn(want string) func(t *testing.T, w *world) {
	return func(t *testing.T, w *world) {
		t.Helper()
		for _, r := range w.ranks {
			if !r.ended || r.last() != want {
				t.Errorf("rank %d: ended %v on version %q, want %q (%v)", r.id, r.ended, r.last(), want, r.callErr)
			}
		}
	}
}

// decision returns what stands for change k.
func (w *world) decision(k uint64) Decision {
	w.check.mu.Lock()
	defer w.check.mu.Unlock()
	return w.check.decisions[k]
}

func (w *world) proposals() int { return len(w.store.Keys("p/")) }

func (r *rank) logged(what string) bool {
	return slices.ContainsFunc(r.log, func(line string) bool { return strings.Contains(line, what) })
}

// delayed makes the first operation of a kind on a key that holds part slow.
func delayed(kind, part string, rank int, d time.Duration) func(int, memstore.Op, memstore.Fate) memstore.Fate {
	return func(r int, op memstore.Op, f memstore.Fate) memstore.Fate {
		if op.Kind == kind && strings.Contains(op.Key, part) && op.Nth == 0 && (rank < 0 || r == rank) {
			f.Request = d
		}
		return f
	}
}

func TestScenario01PlainChange(t *testing.T) {
	t.Parallel()
	try(t, 100, func(seed uint64) plan {
		p := usual(seed)
		p.saved(time.Second, "B")
		return p
	}, func(t *testing.T, w *world) {
		endsOn("B")(t, w)
		for _, r := range w.ranks {
			if len(r.switches) != 1 {
				t.Errorf("rank %d switched at %v", r.id, r.switches)
			}
		}
	})
}

// A change without faults makes the main threads call AtTrigger at S and at the next call,
// which differs from the one before: the barrier.
func TestScenario01PromiseInC(t *testing.T) {
	t.Parallel()
	try(t, 100, func(seed uint64) plan {
		p := usual(seed)
		p.slow = math.MaxInt
		p.saved(time.Second, "B")
		p.saved(4*time.Second, "C")
		return p
	}, func(t *testing.T, w *world) {
		endsOn("C")(t, w)
		for _, r := range w.ranks {
			if r.slows != 4 || len(r.switches) != 2 {
				t.Errorf("rank %d called AtTrigger %d times, switched at %v", r.id, r.slows, r.switches)
			}
		}
	})
}

func TestScenario02ThreeSavesIn100ms(t *testing.T) {
	t.Parallel()
	try(t, 50, func(seed uint64) plan {
		p := usual(seed)
		p.saved(time.Second, "B")
		p.saved(1050*time.Millisecond, "C")
		p.saved(1100*time.Millisecond, "D")
		return p
	}, endsOn("D"))
}

func TestScenario03TwoProposersDifferentVersions(t *testing.T) {
	t.Parallel()
	try(t, 50, func(seed uint64) plan {
		p := usual(seed)
		p.saved(time.Second, "B", 0)
		p.saved(time.Second, "C", 1)
		return p
	}, func(t *testing.T, w *world) {
		for _, r := range w.ranks {
			if !r.ended || !slices.Contains(r.decided, "B") || !slices.Contains(r.decided, "C") || len(r.switches) != 2 {
				t.Errorf("rank %d switched at %v", r.id, r.switches)
			}
		}
	})
}

func TestScenario04OnlyOneRankSeesTheFile(t *testing.T) {
	t.Parallel()
	try(t, 50, func(seed uint64) plan {
		p := usual(seed)
		p.saved(time.Second, "B", 2)
		return p
	}, endsOn("B"))
}

func TestScenario05SavesSeenWithDifferentLag(t *testing.T) {
	t.Parallel()
	try(t, 100, func(seed uint64) plan {
		p := usual(seed)
		p.calls = 1500
		r := rand.New(rand.NewPCG(seed, 5))
		for rank := range p.ranks {
			lag := time.Duration(r.Float64() * float64(3*time.Second))
			p.saved(time.Second+lag, "B", rank)
			p.saved(2*time.Second+lag, "C", rank)
			p.saved(4*time.Second+lag, "D", rank)
		}
		return p
	}, endsOn("D"))
}

func TestScenario06SaveAndRevert(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{50, 300, 600, 1000, 2000} {
		try(t, 20, func(seed uint64) plan {
			p := usual(seed)
			p.saved(time.Second, "B")
			p.saved(time.Second+after*time.Millisecond, "A")
			return p
		}, endsOn("A"))
	}
}

func TestScenario07CommentOnlyEdit(t *testing.T) {
	t.Parallel()
	try(t, 10, func(seed uint64) plan {
		p := usual(seed)
		p.saved(time.Second, "A # the same")
		return p
	}, func(t *testing.T, w *world) {
		endsOn("A")(t, w)
		if n := w.proposals(); n > 0 {
			t.Errorf("%d proposals", n)
		}
	})
}

func TestScenario08AckReplyLost(t *testing.T) {
	t.Parallel()
	try(t, 50, func(seed uint64) plan {
		p := usual(seed)
		p.saved(time.Second, "B")
		p.tamper = func(rank int, op memstore.Op, f memstore.Fate) memstore.Fate {
			f.ReplyLost = op.Kind == "put" && strings.Contains(op.Key, "/a/") && op.Nth < 3
			return f
		}
		return p
	}, endsOn("B"))
}

func TestScenario09DecisionLandsLate(t *testing.T) {
	t.Parallel()
	try(t, 20, func(seed uint64) plan {
		p := usual(seed)
		p.calls = 4000
		p.saved(time.Second, "B")
		p.tamper = delayed("move", "/d/1", -1, time.Minute)
		p.longest = 5 * time.Second // until the operation under way is given up
		return p
	}, endsOn("B"))
}

// Views that are out of date for longer than ranks wait for each other keep changes from
// coming, and no call waits longer for that.
func TestScenario10StaleReads(t *testing.T) {
	t.Parallel()
	for _, stale := range []time.Duration{time.Second, time.Minute} {
		switched := 0
		try(t, 20, func(seed uint64) plan {
			p := usual(seed)
			p.calls = 7000
			p.timing = Shared
			p.longest = 4 * time.Second
			p.saved(time.Second, "B")
			p.faults = func(int) memstore.Faults {
				return memstore.Faults{Delay: 5 * time.Millisecond, Stale: stale}
			}
			return p
		}, func(t *testing.T, w *world) {
			for _, r := range w.ranks {
				switched += len(r.switches)
			}
		})
		if switched == 0 && stale == time.Second && thin == 1 {
			t.Error("no change ever succeeded")
		}
	}
}

func TestScenario11RankLateAtC(t *testing.T) {
	t.Parallel()
	try(t, 50, func(seed uint64) plan {
		p := usual(seed)
		p.saved(time.Second, "B", 0)
		p.tamper = delayed("get", "p/comm.1", 2, 800*time.Millisecond)
		p.longest = 3 * time.Second
		return p
	}, func(t *testing.T, w *world) {
		endsOn("B")(t, w)
		if d := w.decision(1); d.Abort != Late {
			t.Errorf("change 1: %v", d)
		}
	})
}

func TestScenario12Skew(t *testing.T) {
	t.Parallel()
	for ahead := range 2 {
		// Only a lead of more than 2000 calls reaches the ranks that are behind.
		try(t, 2, func(seed uint64) plan {
			p := usual(seed)
			p.calls = 60000
			p.saved(time.Second, "B", 0)
			p.pace = func(rank, call int, r *rand.Rand) time.Duration {
				if call < 2000 && rank == ahead {
					return 0
				}
				return every(100*time.Microsecond)(rank, call, r)
			}
			return p
		}, endsOn("B"))
	}
}

func TestScenario13StageFails(t *testing.T) {
	t.Parallel()
	t.Run("for ever", func(t *testing.T) {
		try(t, 10, func(seed uint64) plan {
			p := usual(seed)
			p.calls = 3000
			p.saved(time.Second, "B", 0)
			p.saved(50*time.Second, "C", 0)
			p.stage = func(rank int, content string) error {
				if rank == 1 && content == "B" {
					return errors.New("B:12:4: unknown algorithm")
				}
				return nil
			}
			return p
		}, func(t *testing.T, w *world) {
			endsOn("C")(t, w)
			if n := w.proposals(); n < maxVetoes+1 || n > maxVetoes+3 {
				t.Errorf("%d proposals", n)
			}
			if !w.rank(0).logged("B:12:4") || !w.rank(0).logged("given up until the file changes") {
				t.Error("the proposer does not say why")
			}
		})
	})
	t.Run("for a while", func(t *testing.T) {
		try(t, 10, func(seed uint64) plan {
			p := usual(seed)
			p.calls = 2000
			p.saved(time.Second, "B", 0)
			fails := 2
			p.stage = func(rank int, content string) error {
				if rank == 1 && content == "B" && fails > 0 {
					fails--
					return errStage
				}
				return nil
			}
			return p
		}, endsOn("B"))
	})
	t.Run("missing blob", func(t *testing.T) {
		try(t, 10, func(seed uint64) plan {
			p := usual(seed)
			p.timing.MinLead = 2000 // more than stageLimit
			p.calls = 2000
			p.saved(time.Second, "B", 0)
			p.events = append(p.events, event{1100 * time.Millisecond, func(w *world) { w.store.Delete(blobKey(DigestOf([]byte("B")))) }})
			p.tamper = delayed("get", "blob/", -1, 100*time.Millisecond)
			return p
		}, func(t *testing.T, w *world) {
			endsOn("A")(t, w)
			if d := w.decision(1); d.Abort != CannotStage {
				t.Errorf("change 1: %v", d)
			}
		})
	})
}

func TestScenario14MixedBuilds(t *testing.T) {
	t.Parallel()
	differs := func(what string) func(int, string) string {
		return func(rank int, content string) string {
			if rank == 1 && content == what {
				return "other " + what
			}
			return meaning(content)
		}
	}
	t.Run("change", func(t *testing.T) {
		try(t, 10, func(seed uint64) plan {
			p := usual(seed)
			p.saved(time.Second, "B", 0)
			p.means = differs("B")
			return p
		}, func(t *testing.T, w *world) {
			endsOn("A")(t, w)
			if d := w.decision(1); d.Abort != OtherBuild {
				t.Errorf("change 1: %v", d)
			}
		})
	})
	t.Run("start", func(t *testing.T) {
		try(t, 10, func(seed uint64) plan {
			p := usual(seed)
			p.means = differs("A")
			return p
		}, func(t *testing.T, w *world) {
			// Whoever is first says what the file means.
			wrong := func(id int) bool { return errors.Is(w.rank(id).joinErr, ErrMixedBuilds) }
			if wrong(0) != wrong(2) || wrong(0) == wrong(1) {
				t.Errorf("%v, %v, %v", w.rank(0).joinErr, w.rank(1).joinErr, w.rank(2).joinErr)
			}
		})
	})
}

// crashAtStep crashes a rank when it begins its nth operation after the save;
// the operation itself takes effect or not.
func crashAtStep(victim, step int, lands bool) func(seed uint64) plan {
	return func(seed uint64) plan {
		p := usual(seed)
		p.saved(time.Second, "B", 0)
		var w atomic.Pointer[world]
		p.events = append(p.events, event{time.Second, func(it *world) { w.Store(it) }})
		var n atomic.Int64
		p.tamper = func(rank int, op memstore.Op, f memstore.Fate) memstore.Fate {
			if it := w.Load(); rank == victim && it != nil && n.Add(1) == int64(step) {
				f.Lost = !lands
				it.crash(victim)
			}
			return f
		}
		return p
	}
}

func crashes(t *testing.T, victim int) {
	t.Parallel()
	seen := map[string]bool{}
	for step := 1; step <= 120; step += (1 + step/40) * max(1, thin/4) {
		for _, lands := range []bool{false, true} {
			try(t, 2, crashAtStep(victim, step, lands), func(t *testing.T, w *world) {
				for _, r := range w.ranks {
					if r.id != victim && !r.ended {
						t.Errorf("rank %d did not end", r.id)
					}
				}
				seen[w.rank((victim+1)%3).last()] = true
			})
		}
	}
	if !seen["A"] || !seen["B"] {
		t.Errorf("the crashes led to %v only", seen)
	}
}

func TestScenario15CrashOfProposer(t *testing.T) { crashes(t, 0) }
func TestScenario16CrashOfAnother(t *testing.T)  { crashes(t, 1) }

// lostAt cuts rank 1 off when its record with part in the key lands.
func lostAt(seed uint64, part string, hangs bool, back time.Duration) plan {
	p := usual(seed)
	p.calls = 700
	p.saved(time.Second, "B", 0)
	p.mayStall, p.longest = back == 0, 0
	p.landed = func(w *world, handle, key string) {
		if handle == "1" && strings.Contains(key, part) {
			w.rank(1).handle.SetDown(true, hangs)
			if back > 0 {
				time.AfterFunc(back, func() { w.regain(1) })
			}
		}
	}
	return p
}

func TestScenario17StoreLostBeforeAck(t *testing.T) {
	t.Parallel()
	for _, hangs := range []bool{false, true} {
		try(t, 10, func(seed uint64) plan {
			p := lostAt(seed, "nothing", hangs, 0)
			p.before = func(w *world, r *rank, call int) {
				r.m.mu.Lock()
				defer r.m.mu.Unlock()
				if r.id == 1 && r.m.state == armed && r.counter.Seq.Load()+1 == r.m.change.Check {
					r.handle.SetDown(true, hangs)
				}
			}
			return p
		}, func(t *testing.T, w *world) {
			// A rank that has not put its arrival needs nobody's decision.
			endsOn("A")(t, w)
			if d := w.decision(1); d.Commit {
				t.Error("committed without an acknowledgement")
			}
		})
	}
}

func TestScenario18StoreLostAfterAckAndBack(t *testing.T) {
	t.Parallel()
	for _, hangs := range []bool{false, true} {
		try(t, 10, func(seed uint64) plan { return lostAt(seed, "/m/1/", hangs, time.Minute) }, func(t *testing.T, w *world) {
			endsOn("B")(t, w)
			if r := w.rank(1); r.stall < 30*time.Second || !r.logged("has waited") {
				t.Errorf("rank 1 waited only %v", r.stall)
			}
		})
	}
}

func TestScenario19StoreLostAfterAckForEver(t *testing.T) {
	t.Parallel()
	for _, hangs := range []bool{false, true} {
		try(t, 10, func(seed uint64) plan { return lostAt(seed, "/m/1/", hangs, 0) }, func(t *testing.T, w *world) {
			for _, r := range w.ranks {
				if r.id != 1 && (!r.ended || r.last() != "B") || r.id == 1 && (!errors.Is(r.callErr, ErrStalled) || r.last() != "A") {
					t.Errorf("rank %d: ended %v on %q, %v", r.id, r.ended, r.last(), r.callErr)
				}
			}
		})
	}
}

func refused(k uint64, why Reason, on string) func(t *testing.T, w *world) {
	return func(t *testing.T, w *world) {
		endsOn(on)(t, w)
		if d := w.decision(k); d.Abort != why {
			t.Errorf("change %d: %v", k, d)
		}
	}
}

// A store that answers just after the limit finds a rank that has failed a call, and
// must not bring it back to life: it is one call behind the others. Abort and commit.
func TestScenario19StoreAnswersAfterTheLimit(t *testing.T) {
	t.Parallel()
	for _, mute := range []bool{false, true} {
		try(t, 10, func(seed uint64) plan {
			p := usual(seed)
			p.saved(time.Second, "B", 0)
			p.timing.StallLimit, p.mayStall, p.longest = time.Second, true, 0
			var comes atomic.Bool
			p.landed = func(_ *world, _, key string) {
				if strings.Contains(key, "/m/1/1") {
					comes.Store(true)
				}
			}
			p.tamper = func(rank int, op memstore.Op, f memstore.Fate) memstore.Fate {
				switch {
				case mute && op.Kind == "put" && strings.Contains(op.Key, "/m/1/2"): // forces an abort
					f.Lost = true
				case rank == 1 && comes.Load() && op.Kind == "list" && strings.HasSuffix(op.Key, "/d"):
					f.Reply = 1500 * time.Millisecond
				}
				return f
			}
			return p
		}, func(t *testing.T, w *world) {
			if r := w.rank(1); !errors.Is(r.callErr, ErrStalled) {
				t.Errorf("rank 1: %v", r.callErr)
			}
			if d := w.decision(1); d.Commit == mute {
				t.Errorf("change 1: %v", d)
			}
		})
	}
}

func TestScenario20MisalignedBeforeC(t *testing.T) {
	t.Parallel()
	try(t, 50, func(seed uint64) plan {
		p := usual(seed)
		p.phantom = once(1, 10)
		p.saved(time.Second, "B")
		p.saved(4*time.Second, "C")
		return p
	}, refused(1, Misaligned, "A"))
}

// Ranks that have made the same calls again, if in another order, change again.
func TestScenario20AlignedAgain(t *testing.T) {
	t.Parallel()
	try(t, 50, func(seed uint64) plan {
		p := usual(seed)
		p.calls = 2500
		p.phantom = func(r *rank, call int) bool { return r.phantoms == 0 && call >= 10+200*(r.id%2) }
		p.saved(time.Second, "B")
		return p
	}, refused(1, Misaligned, "B"))
}

func TestScenario21MisalignedInsideWindow(t *testing.T) {
	t.Parallel()
	inWindow := func(r *rank, _ int) bool {
		r.m.mu.Lock()
		defer r.m.mu.Unlock()
		return r.id == 1 && r.phantoms == 0 && r.m.k == 1 && r.m.state == promised
	}
	for _, c := range []struct {
		name  string
		shape func(call int) (int, uint64)
		like  bool
		calls int // after the window's first until the phantom
	}{
		{"any", nil, false, 0},
		{"like the next", nil, true, 0},
		{"late", nil, true, 25},
		{"in a run of calls that are alike", func(call int) (int, uint64) { return 4, uint64(call/70) << 20 }, true, 0},
		{"where all calls are alike", func(int) (int, uint64) { return 4, 1 << 20 }, true, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			try(t, 50, func(seed uint64) plan {
				p := usual(seed)
				p.calls = 1000
				p.shape, p.like = c.shape, c.like
				after := 0
				p.phantom = func(r *rank, call int) bool {
					if !inWindow(r, call) {
						return false
					}
					after++
					return after > c.calls
				}
				p.saved(time.Second, "B")
				p.saved(4*time.Second, "C")
				return p
			}, func(t *testing.T, w *world) {
				endsOn("A")(t, w)
				if w.rank(1).phantoms != 1 {
					t.Errorf("%d phantom calls", w.rank(1).phantoms)
				}
			})
		})
	}
}
