package policy

import (
	"slices"
	"sync"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/when"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// Comm is what a decision may know of a communicator: only what all of its ranks find alike.
type Comm struct {
	nccl.Comm
	// NVLDomains is how many NVLink domains NCCL says that the communicator spans; 0 where it does
	// not, as before ABI v5.
	NVLDomains int `json:"nvl_domains"`
	// UncheckedAllGather says that NCCL may use the channel count of an AllGather without a check
	// against what the communicator has: then it is left to NCCL.
	UncheckedAllGather bool          `json:"-"`
	Topo               *topo.Summary `json:"-"` // of the machine; nil: not known. It must not change
}

func envOf(c Comm) when.Env { return when.EnvOf(c.Comm, c.NVLDomains, c.Topo) }

// View is a Policy as one communicator sees it. A decision goes through the rows that can match the
// communicator, in the file's order: the library asks once for each shape of a call, and then
// remembers the answer.
type View struct {
	policy *Policy
	comm   Comm
	rows   *commRows
	report func(Problem) // may be nil
}

// commRows are the rows that can match one kind of communicator.
type commRows struct {
	rules    []int32 // their indexes in Policy.Rules, ascending
	perCall  bool    // conditions of some depend on the call; the others hold
	failures []failure

	withoutTopology int // rows that never match because the topology is not known

	unchecked      int // rows with a channel count for AllGather, where Comm.UncheckedAllGather
	firstUnchecked *Rule
}

// failure is a row whose condition could not be evaluated.
type failure struct {
	rule int
	err  error
}

// commKinds remembers the rows of each kind of communicator, for a job may have thousands of
// communicators of a few kinds.
type commKinds struct {
	mu       sync.Mutex
	rows     map[Comm]*commRows
	reported map[*when.Condition]bool // those that were said to fail
}

// maxCommKinds bounds the memory of a process with very many kinds.
const maxCommKinds = 64

// For narrows the policy to a communicator.
func (p *Policy) For(c Comm) *View {
	p.kinds.mu.Lock()
	defer p.kinds.mu.Unlock()
	rows := p.kinds.rows[c]
	if rows == nil {
		if len(p.kinds.rows) >= maxCommKinds {
			clear(p.kinds.rows)
		}
		rows = p.rowsFor(c)
		p.kinds.rows[c] = rows
	}
	return &View{policy: p, comm: c, rows: rows}
}

// forAllGather are the algorithms that NCCL has for AllGather and whose channels can be set at all.
const forAllGather = 1<<nccl.AlgoRing | 1<<nccl.AlgoNVLS | 1<<nccl.AlgoPAT

// rowsFor evaluates the conditions that are the same for all calls.
func (p *Policy) rowsFor(c Comm) *commRows {
	rows := &commRows{}
	constant := when.NewEvaluator(envOf(c))
	has := numbersOf(c, Query{})
	for i := range p.Rules {
		r := &p.Rules[i]
		if _, covers := r.BytesFor(c.Ranks); r.Coll == collNeverAsked || !covers || !r.isForNumbers(&has, 0, OfCall) {
			continue
		}
		switch w := r.When; {
		case w == nil:
		case w.NeedsRanksPerNode && c.Ranks%c.Nodes != 0:
			continue
		case w.NeedsTopology && c.Topo == nil:
			rows.withoutTopology++
			continue
		case w.PerCall:
			rows.perCall = true
		default:
			holds, err := constant.Holds(w)
			if err != nil {
				rows.failures = append(rows.failures, failure{i, err})
			}
			if !holds {
				continue
			}
		}
		rows.rules = append(rows.rules, int32(i))
		if c.UncheckedAllGather && r.Channels != 0 && r.Cells.algos&forAllGather != 0 &&
			r.isForColl(nccl.CollAllGather) {
			if rows.unchecked++; rows.unchecked == 1 {
				rows.firstUnchecked = r
			}
		}
	}
	rows.rules = slices.Clip(rows.rules)
	return rows
}

// Empty reports that no row can ever decide anything for this communicator.
func (v *View) Empty() bool { return len(v.rows.rules) == 0 }

// WithoutTopology returns how many rows would be for this communicator if the topology were known.
// They never match.
func (v *View) WithoutTopology() int { return v.rows.withoutTopology }

// Decide finds the first row in the file that matches the query and has an available cell. It never
// fails: where nothing applies, NCCL decides.
func (v *View) Decide(q Query) Decision {
	d := Decision{Rule: -1}
	d.setNCCLsOwn(q.Costs)
	if !q.Coll.IsAsked() || d.offersNothing(q.Costs) {
		return d
	}
	var conditions *when.Evaluator
	if v.rows.perCall {
		conditions = v.evaluator(q)
	}
	perRank, has := q.Bytes/uint64(v.comm.Ranks), numbersOf(v.comm, q)
	for _, i := range v.rows.rules {
		r := &v.policy.Rules[i]
		if !r.isForSize(q.Bytes, perRank) || !r.isForColl(q.Coll) || !r.isForNumbers(&has, OfCall, NumNumbers) {
			continue
		}
		if r.When != nil && r.When.PerCall && !v.holds(int(i), conditions) {
			continue
		}
		if found, ok := v.apply(int(i), &q); ok {
			return found
		}
	}
	return d
}

// apply returns what rule r makes of the query, and whether it can decide it.
func (v *View) apply(r int, q *Query) (Decision, bool) {
	d, ok := v.policy.Rules[r].apply(q, v.comm)
	d.Rule = r
	return d, ok
}

// evaluator evaluates conditions for one call.
func (v *View) evaluator(q Query) *when.Evaluator {
	e := when.NewEvaluator(envOf(v.comm))
	e.Next(q.Call, q.PipeOps)
	return e
}

// holds evaluates the condition of a row.
func (v *View) holds(rule int, conditions *when.Evaluator) bool {
	holds, err := conditions.Holds(v.policy.Rules[rule].When)
	if err != nil {
		v.failed(rule, err)
	}
	return holds
}

// ReportConditions asks to be told of each condition that cannot be evaluated, as after a division
// by zero; its rows do not match. It is reported once per policy, of the first row that has it and
// to the first that asks. Call it before Decide.
func (v *View) ReportConditions(report func(Problem)) {
	v.report = report
	for _, f := range v.rows.failures {
		v.failed(f.rule, f.err)
	}
}

func (v *View) failed(rule int, err error) {
	if v.report == nil {
		return
	}
	k, r := &v.policy.kinds, &v.policy.Rules[rule]
	k.mu.Lock()
	first := !k.reported[r.When]
	k.reported[r.When] = true
	k.mu.Unlock()
	if first {
		v.report(Problem{v.policy.File, r.Line, v.policy.whenColumn, err.Error()})
	}
}
