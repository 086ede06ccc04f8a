package agree

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/golden"
)

// TestCostOfAChange counts what a change asks of the store, and what doing nothing
// does.
func TestCostOfAChange(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	t.Parallel()
	many := 64
	if os.Getenv(golden.EnvNightly) != "" {
		many = 1024
	}
	for _, c := range []struct {
		name       string
		ranks      int
		node       int
		timing     Timing
		puts, asks int     // at most, per change
		idle       float64 // operations per second and rank, at most
	}{
		{"8 ranks of one machine", 8, 0, Local, 19, 1100, 4.1},
		{"many ranks, shared", many, 0, Shared, 2*many + 4, 60 * many, 1.1},
		{"many ranks, shared, by machines of 8", many, 8, Shared, many/4 + 6, 11 * many, 0.2},
	} {
		const save, quiet = 20 * time.Second, 5 * time.Second
		p := usual(1)
		p.ranks, p.node, p.timing, p.longest = c.ranks, c.node, c.timing, 0
		p.pace = every(50 * time.Millisecond)
		if c.ranks > 8 {
			p.ahead = 0 // hundreds that wait for each other take the simulation too long
		}
		p.calls = 1000
		p.saved(save, "B", 0)
		type ops struct{ put, ask int }
		count := func(w *world) (o ops) {
			for _, r := range w.ranks {
				o.put += r.handle.Count("put")
				o.ask += r.handle.Count("get") + r.handle.Count("list") + r.handle.Count("mark")
			}
			return o
		}
		var first, before, after ops
		p.events = []event{
			{save - quiet, func(w *world) { first = count(w) }},
			{save - time.Millisecond, func(w *world) { before = count(w) }},
			{save + 20*time.Second, func(w *world) { after = count(w) }},
		}
		p.faults = func(int) memFaults { return memFaults{Delay: 2 * time.Millisecond} }
		w := simulate(t, p)
		endsOn("B")(t, w)
		w.report(t, false)
		idle := float64(before.ask-first.ask) / quiet.Seconds() / float64(c.ranks)
		puts := after.put - before.put
		asks := after.ask - before.ask - int(idle*20*float64(c.ranks))
		changes := w.proposals()
		t.Logf("%s: %d puts, %d gets and lists beyond the idle ones, in %d proposals; idle %.1f operations per second and rank; joining took %d puts",
			c.name, puts, asks, changes, idle, first.put)
		if puts > c.puts*changes || asks > c.asks*changes || idle > c.idle {
			t.Errorf("%s: more than expected", c.name)
		}
	}
}

// TestCostOfSilence: a change waits for its checkpoint as long as the communicator
// makes no calls, and costs no more than looking for a change does.
func TestCostOfSilence(t *testing.T) {
	t.Parallel()
	const save, quiet = 20 * time.Second, 20 * time.Second
	p := usual(1)
	p.ranks, p.timing, p.longest = 8, Local, 0
	p.pace = func(_, _ int, r *rand.Rand) time.Duration { // the checkpoint is two minutes away
		return 4*time.Second + time.Duration(r.IntN(1e6))
	}
	p.ahead = 1
	p.calls = 100
	p.saved(save, "B", 0)
	var before, after int
	var timers [2]int64
	count := func(n *int, timers *int64) func(*world) {
		return func(w *world) {
			*timers = w.timers.Load()
			for _, r := range w.ranks {
				*n += r.handle.Count("put") + r.handle.Count("get") + r.handle.Count("list")
			}
		}
	}
	p.events = []event{{save + 5*time.Second, count(&before, &timers[0])}, {save + 5*time.Second + quiet, count(&after, &timers[1])}}
	w := simulate(t, p)
	endsOn("B")(t, w)
	w.report(t, false)
	perRank := float64(after-before) / quiet.Seconds() / 8
	perRankTimers := float64(timers[1]-timers[0]) / quiet.Seconds() / 8
	t.Logf("%.1f operations and %.1f timers per second and rank", perRank, perRankTimers)
	if perRankTimers > 25 {
		t.Errorf("%.1f timers per second and rank while nothing happens", perRankTimers)
	}
	if perRank > 8.2 {
		t.Errorf("%.1f operations per second and rank while nothing happens", perRank)
	}
}
