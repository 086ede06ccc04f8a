package agree

import (
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/nccltest"
)

// TestCostOfAChange counts what a change asks of the store, and what doing nothing
// does.
func TestCostOfAChange(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	t.Parallel()
	many := 64
	if os.Getenv(nccltest.EnvNightly) != "" {
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
		{"8 ranks of one machine", 8, 0, Local, 20, 1100, 4.1},
		{"many ranks, shared", many, 0, Shared, 2*many + 5, 60 * many, 1.1},
		{"many ranks, shared, by machines of 8", many, 8, Shared, many/4 + 7, 11 * many, 0.2},
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
		t.Logf("%s: %d puts, %d gets and lists beyond the idle ones, in %d proposals; idle %.1f operations per "+
			"second and rank; joining took %d puts",
			c.name, puts, asks, changes, idle, first.put)
		if puts > c.puts*changes || asks > c.asks*changes || idle > c.idle {
			t.Errorf("%s: more than expected", c.name)
		}
	}
}

// A rank that waits for the others puts its arrival once.
func TestCostOfAWait(t *testing.T) {
	t.Parallel()
	p := usual(1)
	p.saved(time.Second, "B", 0)
	late := delayed("put", "/m/1/2", 2, 300*time.Millisecond)
	p.tamper = func(rank int, op memOp, f memFate) memFate {
		if op.Kind == "put" && strings.Contains(op.Key, "/m/1/") && op.Nth > 0 {
			t.Errorf("rank %d puts %s again", rank, op.Key)
		}
		return late(rank, op, f)
	}
	w := simulate(t, p)
	endsOn("B")(t, w)
	w.report(t, false)
}

// Ranks that are not told their numbers do not all try the same slots.
func TestCostOfJoining(t *testing.T) {
	t.Parallel()
	p := usual(1)
	p.ranks, p.calls, p.unnumbered, p.ahead = 64, 10, true, 0
	var tried atomic.Int64
	p.tamper = func(_ int, op memOp, f memFate) memFate {
		if op.Kind == "put" && strings.Contains(op.Key, "/slot/") {
			tried.Add(1)
		}
		return f
	}
	w := simulate(t, p)
	endsOn("A")(t, w)
	w.report(t, false)
	if n := tried.Load(); n > 3*int64(p.ranks) {
		t.Errorf("%d puts for %d slots", n, p.ranks)
	}
}

// asked returns how many operations of all kinds the ranks have begun on the store that all share, and
// how many of them listed what is undecided: as many as it takes for one communicator are enough for
// any number of them, while all others are needed for each.
func (w *world) asked() (all, listings int) {
	for _, r := range w.ranks {
		r.handle.mu.Lock()
		for _, n := range r.handle.count {
			all += n
		}
		listings += r.handle.done[memOp{Kind: "list", Key: "open"}]
		r.handle.mu.Unlock()
	}
	return all, listings
}

// TestCostOfManyCommunicators says what large jobs ask of a shared store, in operations a second of
// all their ranks together. It counts what simulated ranks do, and scales that up by the number of
// processes or of nodes that list, and of communicators.
func TestCostOfManyCommunicators(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	t.Parallel()
	const communicators, perNode = 100, 8
	for _, c := range []struct {
		nodes      int
		aggregated bool
		// At most: operations a second of all ranks, idle and in an edit of all communicators.
		idle, edit float64
	}{
		{8, false, 70, 100_000},
		{64, false, 520, 500_000},
		{1024, true, 1100, 290_000},
	} {
		const save, quiet = 20 * time.Second, 5 * time.Second
		p := usual(1)
		p.ranks, p.timing, p.longest, p.ahead = 64, Shared, 0, 0
		listers, scale := c.nodes*perNode, c.nodes*perNode/p.ranks
		if c.aggregated {
			p.node, p.timing.Settle = perNode, AggregatedSettle
			listers, scale = c.nodes, c.nodes*perNode/p.ranks
		}
		p.pace = every(50 * time.Millisecond)
		p.calls = 1500
		p.saved(save, "B", 0)
		p.faults = func(int) memFaults { return memFaults{Delay: 2 * time.Millisecond} }
		var all, listings [3]int
		count := func(i int) func(w *world) { return func(w *world) { all[i], listings[i] = w.asked() } }
		var switched time.Duration
		p.before = func(w *world, r *rank, _ int) {
			if switched == 0 && r.id == 0 && r.last() == "B" {
				switched = time.Since(w.begin) - save
				count(2)(w)
			}
		}
		p.events = []event{{save - quiet, count(0)}, {save - time.Millisecond, count(1)}}
		w := simulate(t, p)
		endsOn("B")(t, w)
		w.report(t, false)
		idle := float64(all[1]-all[0]) / quiet.Seconds() * float64(scale)
		change := (all[2] - all[1]) - (listings[2] - listings[1])
		lists := float64(listings[2]-listings[1]) / switched.Seconds() * float64(scale)
		edit := lists + float64(change*scale*communicators)/switched.Seconds()
		t.Logf("%d nodes of %d ranks, %d communicators of all ranks: %.0f operations a second idle, %.0f for %v in "+
			"an edit: %.0f listings and %d operations for each communicator in all (%.1f per rank); %d processes list",
			c.nodes, perNode, communicators, idle, edit, switched.Round(100*time.Millisecond), lists, change*scale,
			float64(change)/float64(p.ranks), listers)
		if w.proposals() != 1 || idle > c.idle || edit > c.edit {
			t.Errorf("%d nodes: more than expected, in %d proposals", c.nodes, w.proposals())
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
	p.events = []event{{save + 5*time.Second, count(&before, &timers[0])},
		{save + 5*time.Second + quiet, count(&after, &timers[1])}}
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
