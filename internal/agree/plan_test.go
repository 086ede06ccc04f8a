package agree

import (
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/nccltest"
)

// A plan is everything that happens in one simulated run. What it leaves open is
// drawn from the seed.
type plan struct {
	seed   uint64
	comms  int // communicators that share the id; 0 means 1
	ranks  int
	calls  int
	timing Timing

	pace   func(rank, call int, r *rand.Rand) time.Duration // before each call
	faults func(rank int) memFaults
	tamper func(rank int, op memOp, drawn memFate) memFate
	own    func(rank int) string        // the file at the start; nil means "A"
	joinAt func(rank int) time.Duration // when init is called
	stage  func(rank int, content string) error
	means  func(rank int, content string) string // nil means: what is before '#'
	calln  func(rank, call int) int              // how many calls the rank makes; nil means calls
	absent map[int]bool                          // ranks that never join
	name   func(rank int) string                 // what the program calls the communicator; nil means that nobody asks
	known  func(rank int) string                 // what a rank knows of it; nil means that nobody asks
	node   int                                   // ranks of a node that has a store of its own; 0: no such stores

	saves  []save
	events []event
	// before runs in the main thread of a rank before each call.
	before func(w *world, r *rank, call int)
	// landed is told of each record, under the store's lock.
	landed func(w *world, handle, key string)
	// phantom makes a call that only this rank counts, of the shape of the rank's next
	// call where like says so.
	phantom func(r *rank, call int) bool
	like    bool
	// shape is what tells calls apart; nil means that no two are alike.
	shape func(call int) (coll int, bytes uint64)
	// thread is how many ranks one thread plays, in one process; 0 means 1. group is how
	// many calls it makes for one rank before it turns to the next; 0 means 1.
	thread, group int
	// process is how many ranks are of one process, each on a thread of its own; 0 means 1.
	process int
	// ahead is how many calls a rank may be ahead of the others of its communicator, as
	// it is where a GPU has to run them; 0 means any number.
	ahead   int
	uniform bool
	// unnumbered ranks are not told which they are.
	unnumbered bool
	// vanishes: records are removed, so what is read once may be different later.
	vanishes bool
	// stale is how many calls pass on average before the main thread sees what the
	// background has written to the trigger; 0 means 2.
	stale int
	// blind keeps the hash from seeing any call. Ranks that count alike must not
	// need it.
	blind bool

	late     time.Duration // how late timers fire
	mayStall bool          // the store is lost for longer than the stall limit
	longest  time.Duration // no call may take longer; 0 means any time
}

// A save is a change of the policy file as seen by one rank.
type save struct {
	at      time.Duration
	rank    int
	content string
}

// An event is anything else.
type event struct {
	at time.Duration
	do func(w *world)
}

// thin keeps one simulation of so many: the nightly run makes all, and -short few, as for the race detector, which
// makes them slow.
var thin = 4

func TestMain(m *testing.M) {
	flag.Parse()
	switch {
	case testing.Short():
		thin = 10
	case os.Getenv(nccltest.EnvNightly) != "":
		thin = 1
	}
	os.Exit(m.Run())
}

// usual is a healthy job: three ranks, a call every 20 ms on average, which a GPU runs.
func usual(seed uint64) plan {
	return plan{seed: seed, ranks: 3, calls: 500, timing: Local, pace: every(20 * time.Millisecond), ahead: 10,
		faults: func(int) memFaults { return memFaults{Delay: 5 * time.Millisecond} },
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

// proposals is how many have been made.
func (w *world) proposals() int {
	w.check.mu.Lock()
	defer w.check.mu.Unlock()
	return len(w.check.props)
}

func (r *rank) logged(what string) bool {
	return slices.ContainsFunc(r.log, func(line string) bool { return strings.Contains(line, what) })
}

// delayed makes the first operation of a kind on a key that holds part slow.
func delayed(kind, part string, rank int, d time.Duration) func(int, memOp, memFate) memFate {
	return func(r int, op memOp, f memFate) memFate {
		if op.Kind == kind && strings.Contains(op.Key, part) && op.Nth == 0 && (rank < 0 || r == rank) {
			f.Request = d
		}
		return f
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
