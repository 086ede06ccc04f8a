package ask

import (
	"maps"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// Files are policies and one model. They tell the communicators, sizes and calls worth asking about.
type Files struct {
	Policies []*policy.Policy
	model    *model.Model // nil: none
}

// Comms lists the communicators that columns and conditions of rules name, and those that the model was measured on.
// Where a rule leaves ranks open, it assumes 8 ranks per node.
func (f Files) Comms() []nccl.Comm {
	const perNode = 8
	seen := map[nccl.Comm]bool{}
	if f.model != nil {
		for _, g := range f.model.File.CurveSets {
			seen[nccl.Comm{Nodes: g.Nodes, Ranks: g.Ranks}] = true
		}
	}
	add := func(nodes, ranks, rpn int) {
		if nodes < 0 && ranks < 0 && rpn < 0 {
			return
		}
		if rpn < 0 {
			rpn = perNode
			if nodes > 0 && ranks > 0 && ranks%nodes == 0 {
				rpn = ranks / nodes
			} else if ranks > 0 && ranks < perNode {
				rpn = ranks
			}
		}
		if nodes < 0 {
			nodes = max(1, ranks/rpn)
		}
		if c := (nccl.Comm{Nodes: nodes, Ranks: nodes * rpn}); c.Ranks > 1 && (ranks < 0 || ranks == c.Ranks) {
			seen[c] = true
		}
	}
	for _, p := range f.Policies {
		for _, r := range p.Rules {
			nodes, ranks, rpn := int(r.Numbers[policy.Nodes]), int(r.Numbers[policy.Ranks]),
				int(r.Numbers[policy.RanksPerNode])
			add(nodes, ranks, rpn)
			for _, n := range inComms(r.When.Limits("nodes")) {
				add(n, ranks, rpn)
			}
			for _, n := range inComms(r.When.Limits("ranks")) {
				add(nodes, n, rpn)
			}
			for _, n := range inComms(r.When.Limits("ranks_per_node")) {
				add(nodes, ranks, n)
			}
		}
	}
	return slices.SortedFunc(maps.Keys(seen), nccl.Comm.Compare)
}

// Rules are those that can match a collective on a communicator.
func (f Files) Rules(coll nccl.Coll, c nccl.Comm) (rules []*policy.Rule) {
	for _, p := range f.Policies {
		for i := range p.Rules {
			if r := &p.Rules[i]; r.IsFor(coll, policy.Comm{Comm: c}) {
				rules = append(rules, r)
			}
		}
	}
	return rules
}

// Sizes adds to samples the sizes at which a rule begins or ends, and those that the model was measured at.
func (f Files) Sizes(samples []uint64, coll nccl.Coll, c nccl.Comm) []uint64 {
	sizes := withEdges(samples, c.Ranks, f.Rules(coll, c))
	if f.model == nil {
		return sizes
	}
	for _, g := range f.model.File.CurveSets {
		if of, err := nccl.Colls.Parse(g.Coll); err != nil || of != coll || g.Ranks*c.Nodes != c.Ranks*g.Nodes {
			continue
		}
		for _, b := range g.Sizes() {
			if samples[0] <= b && b <= samples[len(samples)-1] {
				sizes = append(sizes, b)
			}
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// inComms returns the limits that a communicator of a usual size can have.
func inComms(limits []int) []int {
	return slices.DeleteFunc(slices.Clone(limits), func(n int) bool { return n < 1 || n > 1<<16 })
}

// withEdges adds to sampled sizes those at which a rule begins or ends or that a condition names, and their neighbours,
// so that no rule hides between two samples. It stays between the first and the last sample.
func withEdges(sizes []uint64, ranks int, rules []*policy.Rule) []uint64 {
	first, last := sizes[0], sizes[len(sizes)-1]
	all := slices.Clone(sizes)
	around := func(n uint64) {
		for _, n := range []uint64{n - 1, n, n + 1} {
			if first <= n && n <= last {
				all = append(all, n)
			}
		}
	}
	for _, r := range rules {
		around(r.Bytes.Min)
		around(r.Bytes.Max)
		if r.BytesPerRank.Min <= last {
			around(r.BytesPerRank.Min * uint64(ranks))
		}
		if r.BytesPerRank.Max <= last {
			around((r.BytesPerRank.Max+1)*uint64(ranks) - 1)
		}
		for _, n := range r.When.Limits("bytes") {
			around(uint64(n))
		}
		for _, n := range r.When.Limits("bytes_per_rank") {
			if n := uint64(n); n <= last {
				around(n * uint64(ranks))
				around((n + 1) * uint64(ranks))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Calls returns a question for each pair of pipe_ops and reg_buff that the rules distinguish.
func (q Question) Calls(rules []*policy.Rule) (calls []Question) {
	pipeOps, regBuffs := []int{1}, []int{0}
	tell := func(n int) {
		if n >= 0 && !slices.Contains(pipeOps, n) {
			pipeOps = append(pipeOps, n)
		}
	}
	for _, r := range rules {
		tell(int(r.Numbers[policy.PipeOps]))
		for _, n := range r.When.Limits("pipe_ops") {
			if n < 1<<16 {
				tell(n - 1)
				tell(n)
				tell(n + 1)
			}
		}
		if r.Numbers[policy.RegBuff] == 1 && len(regBuffs) == 1 {
			regBuffs = append(regBuffs, 1)
		}
	}
	slices.Sort(pipeOps)
	for _, p := range pipeOps {
		for _, r := range regBuffs {
			q.PipeOps, q.RegBuff = p, r
			calls = append(calls, q)
		}
	}
	return calls
}
