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

// A change without faults makes the main threads call AtTrigger at c, at S, and at the call after
// S, which differs from the one before: the barrier.
func TestScenario01CallsOfAtTrigger(t *testing.T) {
	t.Parallel()
	try(t, 100, func(seed uint64) plan {
		p := usual(seed)
		p.saved(time.Second, "B")
		p.saved(4*time.Second, "C")
		return p
	}, func(t *testing.T, w *world) {
		endsOn("C")(t, w)
		for _, r := range w.ranks {
			if r.slows != 6 || len(r.switches) != 2 {
				t.Errorf("rank %d called AtTrigger %d times, switched at %v", r.id, r.slows, r.switches)
			}
		}
	})
}

// A save is acted on at once: what others do is looked for now and then.
func TestScenario01SaveBetweenPolls(t *testing.T) {
	t.Parallel()
	try(t, 10, func(seed uint64) plan {
		p := usual(seed)
		p.ranks = 1
		p.timing.IdlePoll = time.Hour
		p.saved(time.Second, "B")
		return p
	}, endsOn("B"))
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
			if !r.ended || !slices.Contains(r.decided, "B") || !slices.Contains(r.decided, "C") ||
				len(r.switches) != 2 {
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
		p.tamper = func(rank int, op memOp, f memFate) memFate {
			f.ReplyLost = op.Kind == "put" && strings.Contains(op.Key, "/a/") && op.Nth < 3
			return f
		}
		return p
	}, endsOn("B"))
}

// Each try leaves a token, so tries become rare, and the change comes when the proposal can be put.
func TestScenario08ProposalCannotBePut(t *testing.T) {
	t.Parallel()
	p := usual(1)
	p.calls = 9000 // in three minutes
	p.saved(time.Second, "B", 0)
	var room atomic.Bool
	p.events = append(p.events, event{100 * time.Second, func(*world) { room.Store(true) }})
	p.tamper = func(_ int, op memOp, f memFate) memFate {
		if op.Kind == "put" && strings.HasPrefix(op.Key, "p") && !room.Load() {
			f.Err = errors.New("it is full")
		}
		return f
	}
	w := simulate(t, p)
	endsOn("B")(t, w)
	tokens := slices.DeleteFunc(w.store.Keys(""), func(key string) bool { return !strings.Contains(key, "/t/") })
	if n := len(tokens); n > 10 {
		t.Errorf("%d tokens", n)
	}
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
			p.faults = func(int) memFaults {
				return memFaults{Delay: 5 * time.Millisecond, Stale: stale}
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
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
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
	t.Run("missing content", func(t *testing.T) {
		try(t, 10, func(seed uint64) plan {
			p := usual(seed)
			p.timing.MinLead = 2000 // more than stageLimit
			p.calls = 2000
			p.saved(time.Second, "B", 0)
			p.events = append(p.events, event{1100 * time.Millisecond, func(w *world) {
				w.store.Delete(keys("comm").of(kindContent, 1) + "/" + DigestOf([]byte("B")))
			}})
			p.tamper = delayed("get", "c/comm/v/", -1, 100*time.Millisecond)
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
