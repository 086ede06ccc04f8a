package tuner

import (
	"slices"
	"sync"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// known are the queries that a communicator was asked, the latest of them. When its
// policy changes, they will be asked again, all within moments; so the new version is
// asked before it comes into force, and the job's calls find the answers there.
type known struct {
	mu      sync.Mutex
	queries []policy.Query
	oldest  int // where the next one goes
}

// maxKnown bounds the memory, to some 200 KB; most jobs have some dozens.
const maxKnown = 1 << 10

// add keeps a query, whose costs are the caller's. While latest is at work it does not:
// a call waits for nobody, and one query does not matter.
func (k *known) add(q policy.Query) {
	if !k.mu.TryLock() {
		return
	}
	defer k.mu.Unlock()
	if len(k.queries) < maxKnown {
		k.queries = append(k.queries, policy.Query{})
	}
	place := &k.queries[k.oldest]
	costs := append(place.Costs.Micros[:0], q.Costs.Micros...)
	*place = q
	place.Costs.Micros = costs
	k.oldest = (k.oldest + 1) % maxKnown
}

// latest returns copies of all, the latest first.
func (k *known) latest() []policy.Query {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]policy.Query, 0, len(k.queries))
	for i := range k.queries {
		q := k.queries[(k.oldest+maxKnown-1-i)%maxKnown]
		q.Costs.Micros = slices.Clone(q.Costs.Micros)
		all = append(all, q)
	}
	return all
}

// answer is what a version says to a query.
type answer struct {
	policy.Query
	policy.Answer
}

// foreseeFor is the time that a version is given to be asked beforehand: all ranks wait
// for each other until the change is prepared. It suffices but for policies with very
// many conditions.
const foreseeFor = 50 * time.Millisecond

// foresee asks a version that may come into force what this communicator will ask it.
func (c *Comm) foresee(f *inForce) {
	if c.info.Host == nil {
		return
	}
	began := clock.Now()
	for _, q := range c.known.latest() {
		if clock.Now()-began > foreseeFor {
			return
		}
		a := f.view.Decide(q)
		c.info.Host.Remember(f.attached, q, a.Decision)
		if f.decisions != nil {
			f.foreseen = append(f.foreseen, answer{q, a})
		}
	}
}

// begin logs what a version that has come into force was asked beforehand.
func (f *inForce) begin() {
	for _, a := range slices.Backward(f.foreseen) {
		f.decisions.add(a.Query, a.Answer)
	}
	f.foreseen = nil
}
