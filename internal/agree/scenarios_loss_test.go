package agree

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// crashAtStep crashes a rank when it begins its nth operation after the save;
// the operation itself takes effect or not.
func crashAtStep(victim, step int, lands bool) func(seed uint64) plan {
	return func(seed uint64) plan {
		p := usual(seed)
		p.saved(time.Second, "B", 0)
		var w atomic.Pointer[world]
		p.events = append(p.events, event{time.Second, func(it *world) { w.Store(it) }})
		var n atomic.Int64
		p.tamper = func(rank int, op memOp, f memFate) memFate {
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

func TestScenario16CrashOfAnother(t *testing.T) { crashes(t, 1) }

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
				if r.id == 1 && r.m.change.state == armed && r.counter.Seq.Load()+1 == r.m.change.Check {
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
		try(t, 10, func(seed uint64) plan { return lostAt(seed, "/m/1/", hangs, time.Minute) },
			func(t *testing.T, w *world) {
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
		try(t, 10, func(seed uint64) plan {
			p := lostAt(seed, "/m/1/", hangs, 0)
			p.late = 10 * time.Millisecond
			p.events = append(p.events, event{time.Hour, func(*world) { panic("rank 1 waits for ever") }})
			return p
		}, func(t *testing.T, w *world) {
			for _, r := range w.ranks {
				if r.id != 1 && (!r.ended || r.last() != "B") ||
					r.id == 1 && (!errors.Is(r.callErr, ErrStalled) || r.last() != "A") {
					t.Errorf("rank %d: ended %v on %q, %v", r.id, r.ended, r.last(), r.callErr)
				}
			}
		})
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
			p.tamper = func(rank int, op memOp, f memFate) memFate {
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

// A rank is stopped at the barrier for longer than the stall limit, as by a debugger. It goes on as if nothing had
// been, whether the others have decided meanwhile or not.
func TestScenario53StoppedAtTheBarrier(t *testing.T) {
	t.Parallel()
	for limit, stop := range map[time.Duration]time.Duration{time.Second: 2 * waitSlice, DefaultStallLimit: time.Hour} {
		aborts, commits := 0, 0
		try(t, 40, func(seed uint64) plan {
			p := usual(seed)
			p.calls, p.longest = 2000, 0 // by the clock of the one that was stopped
			p.timing.StallLimit = limit
			p.saved(time.Second, "B", 0)
			p.tamper = delayed("put", "/m/1/2", 2, 200*time.Millisecond)
			var stopped atomic.Bool
			p.landed = func(w *world, _, key string) {
				if strings.Contains(key, "/m/1/1") && !stopped.Swap(true) {
					time.AfterFunc(time.Duration(seed)*10*time.Millisecond, func() {
						w.check.trace("rank 1 was stopped for %v", stop)
						w.rank(1).clock.skip(stop)
					})
				}
			}
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
			t.Errorf("%d commits, %d aborts: not all is tried", commits, aborts)
		}
	}
}
