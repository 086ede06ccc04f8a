package tuner

import (
	"slices"
	"sync"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// recentQueries keeps the latest queries of a communicator. After a change of the policy they
// come again within moments. So a new version is asked them before it comes into force, and
// the job's calls find the answers in its cache.
type recentQueries struct {
	mu      sync.Mutex
	queries []policy.Query
	oldest  int // where the next one goes
}

// maxRecent bounds the memory, to some 200 KB; most jobs have some dozens.
const maxRecent = 1 << 10

// add keeps a copy of a query. While latest runs it drops the query instead: a call must not
// wait, and one query does not matter.
func (r *recentQueries) add(q policy.Query) {
	if !r.mu.TryLock() {
		return
	}
	defer r.mu.Unlock()
	if len(r.queries) < maxRecent {
		r.queries = append(r.queries, policy.Query{})
	}
	kept := &r.queries[r.oldest]
	costs := append(kept.Costs.Micros[:0], q.Costs.Micros...)
	*kept = q
	kept.Costs.Micros = costs
	r.oldest = (r.oldest + 1) % maxRecent
}

// latest returns copies of all queries, the latest first.
func (r *recentQueries) latest() []policy.Query {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]policy.Query, 0, len(r.queries))
	for i := range r.queries {
		q := r.queries[(r.oldest+maxRecent-1-i)%maxRecent]
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

// prewarmFor bounds the prewarm, because a change waits until all ranks have done it. Only a
// policy with very many conditions takes longer.
const prewarmFor = 50 * time.Millisecond

// prewarm fills the cache of a version that may come into force.
func (c *Comm) prewarm(s *snapshot) {
	if s.cache == nil {
		return
	}
	began := time.Now()
	for _, q := range c.recent.latest() {
		if time.Since(began) > prewarmFor {
			return
		}
		a := s.view.Decide(q)
		s.cache.Remember(q, Decision{a.Decision, s.decider(a)})
		if s.decisions != nil || c.recording != nil {
			s.prewarmed = append(s.prewarmed, answer{q, a})
		}
	}
}
