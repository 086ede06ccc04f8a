package policy

import (
	"cmp"
	"slices"
	"sync"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// conditional are the rules that have a condition. What else they ask for comes
// first: a communicator evaluates only the conditions of rules that can match it,
// and a call only those of rules that cover its size.
type conditional struct {
	rules    []int32 // ascending
	topology bool    // some need the topology
	ids      int     // above all conditions' ids

	mu       sync.Mutex
	byComm   map[Comm]*commRules
	reported map[int32]bool // rules whose condition was said to fail
}

// conditionalOf returns nil where there are none.
func conditionalOf(rules []Rule) *conditional {
	c := &conditional{byComm: map[Comm]*commRules{}, reported: map[int32]bool{}}
	for i := range rules {
		if when := rules[i].When; when != nil && rules[i].Coll != collNeverAsked {
			c.rules = append(c.rules, int32(i))
			c.topology = c.topology || when.topology
			c.ids = max(c.ids, when.id+1)
		}
	}
	if len(c.rules) == 0 {
		return nil
	}
	return c
}

// NeedsTopology reports whether a condition mentions topo: for a Comm without
// Topo, that row never matches.
func (p *Policy) NeedsTopology() bool { return p.conditional != nil && p.conditional.topology }

// commRules is what the conditional rules are to one communicator.
type commRules struct {
	env      whenEnv             // what all calls have alike
	always   index               // rules whose condition holds for all calls
	stacks   map[stackKey]*stack // rules whose condition depends on the call
	failures []failure

	withoutTopology int // rules that never match because the topology is not known
}

type stackKey struct {
	coll nccl.Coll
	call
}

// failure is a rule whose condition could not be evaluated.
type failure struct {
	rule int32
	err  error
}

// maxConditionalComms bounds the memory of a process with very many kinds of
// communicators.
const maxConditionalComms = 64

// forComm returns nil where there are no conditions.
func (cd *conditional) forComm(rules []Rule, c Comm) *commRules {
	if cd == nil {
		return nil
	}
	cd.mu.Lock()
	defer cd.mu.Unlock()
	cr := cd.byComm[c]
	if cr == nil {
		if len(cd.byComm) >= maxConditionalComms {
			clear(cd.byComm)
		}
		cr = cd.compile(rules, c)
		cd.byComm[c] = cr
	}
	return cr
}

func (cd *conditional) compile(rules []Rule, c Comm) *commRules {
	cr := &commRules{env: envOf(c), stacks: map[stackKey]*stack{}}
	_, wholeNodes := cr.env[nameRanksPerNode]
	type result struct {
		holds bool
		err   error
	}
	var m machine
	results := map[*Condition]result{}
	always := map[int32]bool{}
	perCall := spanGroups{}
	for _, i := range cd.rules {
		r := &rules[i]
		switch when := r.When; {
		case !r.isForComm(c.Nodes, c.Ranks) || when.ranksPerNode && !wholeNodes:
		case when.topology && c.Topo == nil:
			cr.withoutTopology++
		case when.perCall:
			perCall.add(r, i, uint64(c.Ranks))
		default:
			v, known := results[when]
			if !known {
				v.holds, v.err = m.holds(when, cr.env)
				results[when] = v
			}
			if v.err != nil {
				cr.failures = append(cr.failures, failure{i, v.err})
			} else if v.holds {
				always[i] = true
			}
		}
	}
	if len(always) > 0 {
		cr.always = buildIndex(rules, func(i int) bool { return always[int32(i)] })
	}
	for key, groups := range perCall {
		cr.stacks[key] = groups.stack()
	}
	return cr
}

// spanGroups are the spans of a stack in groups of which, at each size, only the
// first can ever decide: those that have one condition and ask for the same cells.
type (
	spanGroups map[stackKey]spanGroup
	spanGroup  map[spanGroupKey][]span
)

type spanGroupKey struct {
	when  *Condition
	cells CellSet
}

func (g spanGroups) add(r *Rule, i int32, ranks uint64) {
	covered := r.bytesOn(ranks)
	if covered.Min > covered.Max {
		return
	}
	key := stackKey{r.Coll, call{r.PipeOps, r.RegBuff}}
	if g[key] == nil {
		g[key] = spanGroup{}
	}
	group := spanGroupKey{r.When, r.Cells}
	g[key][group] = append(g[key][group], span{covered, i})
}

func (g spanGroup) stack() *stack {
	var all []span
	for _, spans := range g {
		if len(spans) > 1 {
			spans = firstWins(spans)
		}
		all = append(all, spans...)
	}
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.rule, b.rule) })
	return newStack(all)
}
