package agree

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A world is a running plan and what has been seen of it.
type world struct {
	plan
	store *memStore
	ranks []*rank
	nodes []*memStore
	begin time.Time
	check checker
	// timers counts the timers that ranks have started.
	timers atomic.Int64

	pollers map[int]*Poller // by process, where ranks have threads of their own; under coming

	coming sync.Mutex
	came   *sync.Cond // a rank has come to another call, or come to its end
}

// simulate runs the plan to its end and returns what was seen.
func simulate(t *testing.T, p plan) *world {
	t.Helper()
	w := &world{plan: p}
	synctest.Test(t, func(t *testing.T) { w.run() })
	return w
}

func (w *world) run() {
	w.begin = time.Now()
	w.store = newMemStore()
	w.check.w = w
	w.check.init()
	w.came = sync.NewCond(&w.coming)
	w.store.Landed = w.check.landed
	w.comms = max(w.comms, 1)
	if w.ahead > 0 { // the ranks of a thread come one after the other
		w.ahead = max(w.ahead, 2*w.group)
	}
	w.stale = max(w.stale, 2)
	var all sync.WaitGroup
	for id := range w.comms * w.plan.ranks {
		if w.absent[id] {
			continue
		}
		r := &rank{w: w, id: id, comm: id / w.plan.ranks, chance: rand.New(rand.NewPCG(w.seed, uint64(id)))}
		var f memFaults
		if w.faults != nil {
			f = w.faults(id)
		}
		r.clock = &rankClock{Clock: RealTime(), timers: &w.timers, late: w.late}
		r.handle = w.store.Handle(fmt.Sprint(id), w.seed, f)
		if w.tamper != nil {
			r.handle.Tamper = func(op memOp, drawn memFate) memFate { return w.tamper(id, op, drawn) }
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
	time.Sleep(3 * time.Minute) // simulated
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
	m.Offer(r.version(content), []byte(content))
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
	time.Sleep(time.Duration(1 + 1009*id + 17*id*id)) // simulated
	if w.joinAt != nil {
		time.Sleep(w.joinAt(id)) // simulated
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
