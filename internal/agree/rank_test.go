package agree

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// A rank is a simulated process: a main thread that makes calls, and a member.
type rank struct {
	w       *world
	comm    int
	id      int // of all communicators together
	clock   *rankClock
	handle  *memHandle
	local   *memHandle // of the node's store, or nil
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
	named    []string // what each stage found the communicator to be called
}

type snapshot struct {
	r       *rank
	content string
}

func (s *snapshot) EffectDigest() string { return s.r.meaning(s.content) }

func meaning(content string) string { return strings.TrimSpace(strings.SplitN(content, "#", 2)[0]) }

func (r *rank) identity() string { return fmt.Sprintf("rank-%d", r.id) }

func (r *rank) name() string {
	if r.w.name == nil {
		return ""
	}
	return r.w.name(r.id)
}

func (r *rank) isCrashed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.crashed
}

func (r *rank) version(content string) VersionID {
	return VersionID{Content: DigestOf([]byte(content)), EffectDigest: r.meaning(content)}
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
	var store Store = r.handle
	if r.local != nil {
		store = NewNodeStore(r.handle, r.local)
	}
	if poller == nil {
		poller = r.w.poller(r, store, r.clock)
	}
	number := r.id % r.w.plan.ranks
	if r.w.unnumbered {
		number = -1
	}
	m, err := Join(ctx, Config{
		Comm: "comm", Ranks: r.w.plan.ranks, Rank: number, Identity: r.identity(),
		Store: store, Poller: poller, Clock: r.clock, Timing: r.w.timing,
		Log: r, Counter: &r.counter, Uniform: r.w.uniform,
		Thread: func() int { return r.id / max(1, r.w.thread) },
		Own:    r.version(own), OwnContent: []byte(own),
		Name: r.name(),
		Stage: func(content []byte, _ string, ranks Ranks) (Snapshot, error) {
			time.Sleep(time.Duration(len(content))) // simulated
			if r.w.known != nil {
				if err := ranks.Same(r.w.known(r.id)); err != nil {
					return nil, err
				}
			}
			if r.w.name != nil {
				called, err := ranks.Name()
				if err != nil {
					return nil, err
				}
				r.mu.Lock()
				r.named = append(r.named, called)
				r.mu.Unlock()
			}
			if r.w.stage != nil {
				if err := r.w.stage(r.id, string(content)); err != nil {
					return nil, err
				}
			}
			return &snapshot{r: r, content: string(content)}, nil
		},
	})
	return m, poller, err
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
		time.Sleep(w.pace(r.id, call, r.chance)) // simulated
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
		shape := HashCall(0, 1<<39, 1)
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
	w.check.reached(r, r.counter.Hash(), shape)
	if n >= r.view {
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
		r.counter.Add(shape)
	}
	time.Sleep(1 + time.Duration(r.chance.IntN(100_000))) // simulated
	r.counter.Seq.Store(n + 1)
	return true
}

// callAgain goes on as some do after a call has failed: no call must ever succeed.
func (r *rank) callAgain(m *Member, n uint64, failed error) {
	for range 5 {
		time.Sleep(time.Duration(1 + r.chance.IntN(5_000_000_000))) // simulated
		if trig := r.counter.Trigger.Load(); n < trig {
			r.w.check.violation(1, "rank %d decides call %d, which has failed before", r.id, n)
			return
		}
		if next, err := m.AtTrigger(n, 0); next != nil || !errors.Is(err, failed) {
			r.w.check.violation(0, "rank %d: a call after the failed one gives %v, %v", r.id, next, err)
			return
		}
	}
}
