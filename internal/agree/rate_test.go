package agree

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// What was called in any stretch of the last 20 s is expected again; what was before is forgotten.
func TestRate(t *testing.T) {
	var r rate
	const pause = 250 * time.Millisecond
	now, calls := time.Hour, uint64(1000)
	play := func(d time.Duration, each uint64) {
		for range d / pause {
			now, calls = now+pause, calls+each
			r.sample(now, calls, time.Second)
			r.sample(now+ratePause-1, calls+1000, time.Second) // an instant is no stretch
		}
	}
	for _, c := range []struct {
		d    time.Duration
		each uint64 // calls in a pause
		want uint64 // in a second
	}{{1500 * time.Millisecond, 25, 100}, {10 * time.Second, 10, 100}, {15 * time.Second, 10, 40}, {pause, 300, 330},
		{10 * time.Second, 0, 330}, {15 * time.Second, 1, 4}} {
		if play(c.d, c.each); r.during(time.Second) != c.want {
			t.Errorf("after %v: %d calls in a second, want %d", now-time.Hour, r.during(time.Second), c.want)
		}
	}
}

// host is how a host makes calls for a GPU, which needs 6 ms for each.
type host struct {
	queue int           // calls that the host may be ahead
	burst int           // calls that the host makes at once, when all before are done; 0: each by itself
	pause time.Duration // of the GPU's work, each minute, as for an evaluation
}

func (h host) pace() func(rank, call int, r *rand.Rand) time.Duration {
	const each = 6 * time.Millisecond
	began := time.Now()
	type gpu struct {
		done   []time.Duration // when each call is
		paused time.Duration
	}
	gpus := map[int]*gpu{}
	for rank := range 4 {
		gpus[rank] = &gpu{}
	}
	return func(rank, call int, r *rand.Rand) time.Duration {
		g, now := gpus[rank], time.Since(began)
		at := now + 20*time.Microsecond
		if n := call - h.queue; n >= 0 && n < len(g.done) {
			at = max(at, g.done[n])
		}
		if h.burst > 0 && call%h.burst == 0 && call > 0 {
			at = max(at, g.done[call-1])
		}
		if h.pause > 0 && at > g.paused+time.Minute {
			at += h.pause
			g.paused = at
		}
		last := time.Duration(0)
		if call > 0 {
			last = g.done[call-1]
		}
		g.done = append(g.done, max(last, at)+time.Duration((0.9+0.2*r.Float64())*float64(each)))
		return at - now
	}
}

// However calls come, a change is soon there, and few are too early for a rank.
func TestChangesAreQuick(t *testing.T) {
	for name, h := range map[string]host{
		"three steps in the queue":            {queue: 75, burst: 25},
		"clusters":                            {queue: 125, burst: 125},
		"a launch queue of 1024":              {queue: 1024},
		"a launch queue of 1024, evaluations": {queue: 1024, pause: 8 * time.Second},
		"a launch queue of 75, evaluations":   {queue: 75, pause: 8 * time.Second},
	} {
		var took []time.Duration
		late, changes, whys := 0, 0, map[Reason]int{}
		for seed := range uint64(3) {
			const saves, between = 20, 11 * time.Second
			p := usual(1000 + seed)
			p.ranks, p.ahead, p.longest = 4, 1024, 0
			p.calls = int(saves * between / (6 * time.Millisecond))
			p.shape = func(call int) (int, uint64) { return 0, uint64(call % 25) }
			var at []time.Duration // of rank 0's calls
			p.before = func(w *world, r *rank, call int) {
				if r.id == 0 {
					at = append(at, time.Since(w.begin))
				}
			}
			var pace func(int, int, *rand.Rand) time.Duration
			p.events = append(p.events, event{0, func(*world) {}})
			p.pace = func(rank, call int, r *rand.Rand) time.Duration { return pace(rank, call, r) }
			p.joinAt = func(rank int) time.Duration {
				if rank == 0 {
					pace = h.pace()
				}
				return 0
			}
			for i := range saves - 2 {
				p.saved(time.Duration(i+1)*between, fmt.Sprint("B", i))
			}
			w := simulate(t, p)
			w.report(t, false)
			w.check.mu.Lock()
			for _, d := range w.check.decisions {
				if changes++; !d.Commit {
					whys[d.Abort]++
				}
				if d.Abort == Late {
					late++
				}
			}
			w.check.mu.Unlock()
			for _, call := range w.ranks[0].switches {
				took = append(took, at[call]%between)
			}
		}
		slices.Sort(took)
		t.Logf("%s: %d changes, %d too early, aborted %v; %v in the median, %v at most", name, changes, late, whys,
			took[len(took)/2].Round(time.Millisecond), took[len(took)-1].Round(time.Millisecond))
		if took[len(took)/2] > 2*time.Second || 20*late > changes {
			t.Errorf("%s: %d of %d were too early, and the others took %v", name, late, changes, took)
		}
	}
}
