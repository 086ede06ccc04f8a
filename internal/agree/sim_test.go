package agree

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree/memstore"
)

// A plan is everything that happens in one simulated run. What it leaves open is
// drawn from the seed.
type plan struct {
	seed   uint64
	comms  int // communicators that share the id; 0 means 1
	ranks  int
	calls  int
	timing Timing
	strict bool

	pace   func(rank, call int, r *rand.Rand) time.Duration // before each call
	faults func(rank int) memstore.Faults
	tamper func(rank int, op memstore.Op, drawn memstore.Fate) memstore.Fate
	own    func(rank int) string        // the file at the start; nil means "A"
	joinAt func(rank int) time.Duration // when init is called
	stage  func(rank int, content string) error
	means  func(rank int, content string) string // nil means: what is before '#'
	calln  func(rank, call int) int              // how many calls the rank makes; nil means calls
	absent map[int]bool                          // ranks that never join
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
	// vanishes: records are removed, so what is read once may be different later.
	vanishes bool
	// aloneToo holds ranks that found no store to the versions of the others even if
	// two communicators share the id, where the protocol cannot.
	aloneToo bool
	// stale is how many calls pass on average before the main thread sees what the
	// background has written to the trigger; 0 means 2.
	stale int
	// blind keeps the hash from seeing any call. Ranks that count alike must not
	// need it.
	blind bool

	// slow: one in so many promises is left to AtTrigger, as if the background held the
	// lock; 0 means 4.
	slow int

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

// A world is a running plan and what has been seen of it.
type world struct {
	plan
	store *memstore.Store
	ranks []*rank
	nodes []*memstore.Store
	begin time.Time
	check checker
	// timers counts the timers that ranks have started.
	timers atomic.Int64

	pollers map[int]*Poller // by process, where ranks have threads of their own; under coming

	coming sync.Mutex
	came   *sync.Cond // a rank has come to another call, or come to its end
}

// countedClock is the clock of a rank.
type countedClock struct {
	Clock
	timers *atomic.Int64
}

func (c countedClock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	c.timers.Add(1)
	return c.Clock.AfterFunc(d, f)
}

// A rank is a simulated process: a main thread that makes calls, and a member.
type rank struct {
	w       *world
	comm    int
	id      int // of all communicators together
	handle  *memstore.Handle
	local   *memstore.Handle // of the node's store, or nil
	counter Counter
	chance  *rand.Rand

	mu      sync.Mutex
	m       *Member // nil before init and after finalize
	joined  *Member // nil before init
	crashed bool

	// What came of it.
	joinErr  error
	callErr  error
	ended    bool
	decided  []string // the version each call was decided by
	switches []uint64 // the calls at which the version changed
	phantoms int
	slows    int  // times in AtTrigger
	call     int  // that it has come to
	gone     bool // it comes to no other
	now      *snapshot
	view     uint64        // the trigger as the main thread sees it
	stall    time.Duration // the longest call
	log      []string
}

type snapshot struct {
	r       *rank
	content string
	begun   bool
	retired bool
}

func (s *snapshot) Meaning() string { return s.r.meaning(s.content) }
func (s *snapshot) Begin()          { s.r.w.check.began(s.r, s) }
func (s *snapshot) Retire()         { s.r.w.check.retire(s.r, s) }

func meaning(content string) string { return strings.TrimSpace(strings.SplitN(content, "#", 2)[0]) }

// simulate runs the plan to its end and returns what was seen.
func simulate(t *testing.T, p plan) *world {
	t.Helper()
	w := &world{plan: p}
	synctest.Test(t, func(t *testing.T) { w.run() })
	return w
}

func (w *world) run() {
	w.begin = time.Now()
	w.store = memstore.New()
	w.store.NoRecord = ErrNoRecord
	w.check.w = w
	w.check.init()
	w.came = sync.NewCond(&w.coming)
	w.store.Landed = w.check.landed
	w.comms = max(w.comms, 1)
	if w.ahead > 0 { // the ranks of a thread come one after the other
		w.ahead = max(w.ahead, 2*w.group)
	}
	w.stale = max(w.stale, 2)
	if w.slow == 0 {
		w.slow = 4
	}
	var all sync.WaitGroup
	for id := range w.comms * w.plan.ranks {
		if w.absent[id] {
			continue
		}
		r := &rank{w: w, id: id, comm: id / w.plan.ranks, chance: rand.New(rand.NewPCG(w.seed, uint64(id)))}
		var f memstore.Faults
		if w.faults != nil {
			f = w.faults(id)
		}
		r.handle = w.store.Handle(fmt.Sprint(id), w.seed, f)
		if w.tamper != nil {
			r.handle.Tamper = func(op memstore.Op, drawn memstore.Fate) memstore.Fate { return w.tamper(id, op, drawn) }
		}
		w.ranks = append(w.ranks, r)
		if w.node > 0 {
			w.giveNodeStore(r)
		}
	}
	endAggregators := w.aggregate()
	threads := max(1, w.thread)
	for first := 0; first < len(w.ranks); first += threads {
		all.Go(func() { w.main(w.ranks[first:min(first+threads, len(w.ranks))]) })
	}
	for _, s := range w.saves {
		time.AfterFunc(s.at, func() { w.save(s.rank, s.content) })
	}
	for _, e := range w.events {
		time.AfterFunc(e.at, func() { e.do(w) })
	}
	all.Wait()
	endAggregators()
	// What is still under way in the network ends with the world.
	time.Sleep(3 * time.Minute)
	w.check.end()
}

func (w *world) rank(id int) *rank {
	for _, r := range w.ranks {
		if r.id == id {
			return r
		}
	}
	return nil
}

func (w *world) save(id int, content string) {
	r := w.rank(id)
	if r == nil {
		return
	}
	r.mu.Lock()
	m := r.m
	r.mu.Unlock()
	if m == nil {
		return
	}
	w.check.trace("rank %d sees save %q", id, content)
	m.Offer(Version{Content: []byte(content), Meaning: r.meaning(content)})
}

// crash stops the rank's main thread before its next call and cuts it off from
// the store. What is under way arrives.
func (w *world) crash(id int) {
	r := w.rank(id)
	if r == nil {
		return
	}
	w.check.trace("rank %d crashes", id)
	r.handle.SetDown(true, true)
	if r.local != nil {
		r.local.SetDown(true, true)
	}
	r.mu.Lock()
	r.crashed = true
	r.mu.Unlock()
	r.leave()
}

func (r *rank) identity() string { return fmt.Sprintf("rank-%d", r.id) }

func (r *rank) isCrashed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.crashed
}

func (r *rank) meaning(content string) string {
	if r.w.means != nil {
		return r.w.means(r.id, content)
	}
	return meaning(content)
}

func (r *rank) Infof(format string, args ...any) { r.say("INFO ", format, args) }
func (r *rank) Warnf(format string, args ...any) { r.say("WARN ", format, args) }
func (r *rank) say(level, format string, args []any) {
	line := level + fmt.Sprintf(format, args...)
	r.mu.Lock()
	r.log = append(r.log, line)
	r.mu.Unlock()
	r.w.check.trace("rank %d: %s", r.id, line)
}

// join uses the poller of the rank's process, or makes one.
func (r *rank) join(poller *Poller) (*Member, *Poller, error) {
	own := "A"
	if r.w.own != nil {
		own = r.w.own(r.id)
	}
	ctx, cancel := context.WithTimeout(context.Background(), JoinLimit)
	defer cancel()
	clock := countedClock{RealTime(), &r.w.timers}
	var store Store = r.handle
	if r.local != nil {
		store = NewNodeStore(r.handle, r.local)
	}
	if poller == nil {
		poller = r.w.poller(r, store, clock)
	}
	m, err := Join(ctx, Config{
		Comm: "comm", Ranks: r.w.plan.ranks, Rank: r.id % r.w.plan.ranks, Identity: r.identity(),
		Store: store, Poller: poller, Clock: clock, Timing: r.w.timing,
		Log: r, Counter: &r.counter, Strict: r.w.strict, Uniform: r.w.uniform,
		Thread: func() int { return r.id / max(1, r.w.thread) },
		Own:    Version{Content: []byte(own), Meaning: r.meaning(own)},
		Stage: func(content []byte, _ string) (Snapshot, error) {
			time.Sleep(time.Duration(len(content)))
			if r.w.stage != nil {
				if err := r.w.stage(r.id, string(content)); err != nil {
					return nil, err
				}
			}
			return r.w.check.staged(r, string(content)), nil
		},
	})
	return m, poller, err
}

// poller returns that of the rank's process.
func (w *world) poller(r *rank, store Store, clock Clock) *Poller {
	w.coming.Lock()
	defer w.coming.Unlock()
	if w.process < 2 {
		return NewPoller(store, clock, w.timing)
	}
	if w.pollers == nil {
		w.pollers = map[int]*Poller{}
	}
	p := r.id / w.process
	if w.pollers[p] == nil {
		w.pollers[p] = NewPoller(store, clock, w.timing)
	}
	return w.pollers[p]
}

// main is the NCCL thread of these ranks.
func (w *world) main(ranks []*rank) {
	// No two ranks' deadlines shall fall on one instant: their order would be the
	// scheduler's.
	id := ranks[0].id
	time.Sleep(time.Duration(1 + 1009*id + 17*id*id))
	if w.joinAt != nil {
		time.Sleep(w.joinAt(id))
	}
	var poller *Poller
	var live []*rank
	for _, r := range ranks {
		m, used, err := r.join(poller)
		if err != nil {
			r.joinErr = err
			w.check.trace("rank %d: init fails: %v", r.id, err)
			r.leave()
			continue
		}
		poller = used
		r.mu.Lock()
		r.m, r.joined = m, m
		r.mu.Unlock()
		defer r.finalize()
		r.now = m.Snapshot().(*snapshot)
		r.view = r.counter.Trigger.Load()
		live = append(live, r)
	}
	for call, group := 0, max(1, w.group); len(live) > 0; call += group {
		for _, r := range slices.Clone(live) {
			for i := range group {
				if !r.step(call + i) {
					r.leave()
					live = slices.DeleteFunc(live, func(o *rank) bool { return o == r })
					break
				}
			}
		}
	}
}

// come waits until the others are near enough to this call.
func (r *rank) come(call int) {
	w := r.w
	w.coming.Lock()
	defer w.coming.Unlock()
	r.call = call
	w.came.Broadcast()
	for w.ahead > 0 && slices.ContainsFunc(w.ranks, func(o *rank) bool {
		return o.comm == r.comm && !o.gone && !o.isCrashed() && o.call < call-w.ahead
	}) {
		w.came.Wait()
	}
}

// leave keeps the others from waiting for this rank.
func (r *rank) leave() {
	r.w.coming.Lock()
	defer r.w.coming.Unlock()
	r.gone = true
	r.w.came.Broadcast()
}

func (r *rank) finalize() {
	r.mu.Lock()
	m := r.m
	r.m = nil
	r.mu.Unlock()
	began := time.Now()
	m.Close()
	if d := time.Since(began); d > leaveLimit+100*time.Millisecond {
		r.w.check.violation(0, "rank %d: finalize took %v", r.id, d)
	}
	r.w.check.closed(r, m)
}

// step makes the rank's next call, and before it one that only this rank makes if the
// plan wants so. It returns false at the rank's end.
func (r *rank) step(call int) bool {
	w := r.w
	calls := w.plan.calls
	if w.calln != nil {
		calls = w.calln(r.id, calls)
	}
	if call >= calls {
		r.ended = true
		return false
	}
	r.come(call)
	if w.pace != nil && (w.thread <= 1 || r.id%w.thread == 0) {
		time.Sleep(w.pace(r.id, call, r.chance))
	}
	if r.isCrashed() {
		return false
	}
	if w.before != nil {
		w.before(w, r, call)
	}
	coll, bytes := call%5, uint64(call*call)
	if w.shape != nil {
		coll, bytes = w.shape(call)
	}
	if w.phantom != nil && w.phantom(r, call) {
		w.check.trace("rank %d makes phantom call %d", r.id, r.counter.Seq.Load())
		r.phantoms++
		shape := HashCall(0, 1<<39, r.id)
		if w.like {
			shape = HashCall(coll, bytes, 1)
		}
		if !r.ask(shape, nil) {
			return false
		}
	}
	return r.ask(HashCall(coll, bytes, 1), func(n uint64) { w.check.decide(r, r.joined, call, n, r.now) })
}

// ask makes one call as NCCL does; decided is told once it is.
func (r *rank) ask(shape uint64, decided func(n uint64)) bool {
	w, m := r.w, r.joined
	n := r.counter.Seq.Load()
	// The background's stores reach the main thread late, its own at once.
	if r.chance.IntN(w.stale) == 0 {
		r.view = r.counter.Trigger.Load()
	}
	w.check.reached(r, r.counter.Hash.Load(), shape)
	if n < r.view {
	} else if r.chance.IntN(w.slow) > 0 && r.counter.TryPromise(n) {
		r.view = r.counter.Trigger.Load()
	} else {
		began := time.Now()
		r.slows++
		next, err := m.AtTrigger(n, shape)
		r.view = r.counter.Trigger.Load()
		w.check.waited(r, n, time.Since(began))
		if err != nil {
			r.callErr = err
			w.check.trace("rank %d: call %d fails: %v", r.id, n, err)
			r.callAgain(m, n, err)
			return false
		}
		if next != nil && next.(*snapshot) != r.now {
			r.now = next.(*snapshot)
			w.check.switched(r, m, n, r.now)
		}
	}
	if decided != nil {
		decided(n)
	}
	if !w.blind {
		r.counter.Hash.Store(Mix(r.counter.Hash.Load(), shape))
	}
	time.Sleep(1 + time.Duration(r.chance.IntN(100_000)))
	r.counter.Seq.Store(n + 1)
	return true
}

// callAgain goes on as some do after a call has failed: no call must ever succeed.
func (r *rank) callAgain(m *Member, n uint64, failed error) {
	for range 5 {
		time.Sleep(time.Duration(1 + r.chance.IntN(5_000_000_000)))
		if trig := r.counter.Trigger.Load(); n < trig {
			r.w.check.violation(1, "rank %d decides call %d, which has failed before", r.id, n)
			return
		}
		if r.counter.TryPromise(n) {
			r.w.check.violation(1, "rank %d makes a promise at call %d, which has failed before", r.id, n)
			return
		}
		if next, err := m.AtTrigger(n, 0); next != nil || !errors.Is(err, failed) {
			r.w.check.violation(0, "rank %d: a call after the failed one gives %v, %v", r.id, next, err)
			return
		}
	}
}
