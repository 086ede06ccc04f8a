package ask

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/commspec"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// ReadPolicy reads a policy. All problems of the file come back in the error.
func ReadPolicy(file string) (*policy.Policy, error) {
	text, err := cli.ReadDecider(file, cli.KindPolicy)
	if err != nil {
		return nil, err
	}
	p, err := policy.ReadCSV(file, text)
	if err != nil {
		return nil, fmt.Errorf("%s is not a policy:\n%w", file, err)
	}
	if len(p.Rules) == 0 {
		return nil, errors.New(file + " has no rows")
	}
	return p, nil
}

// ReadModel is ReadPolicy for a model.
func ReadModel(file string) (*model.Model, error) {
	text, err := cli.ReadDecider(file, cli.KindModel)
	if err != nil {
		return nil, err
	}
	m, err := model.Read(file, text)
	if err != nil {
		return nil, fmt.Errorf("%s is not a model:\n%w", file, err)
	}
	return m, nil
}

// NamedShapes lists the communicators that rules are written for, by their columns
// or by their conditions, and that a model was measured on, which may be nil. What a
// rule leaves open is filled in with 8 ranks per node.
func NamedShapes(policies []*policy.Policy, model *model.Model) []commspec.Shape {
	const perNode = 8
	seen := map[commspec.Shape]bool{}
	if model != nil {
		for _, g := range model.File.Groups {
			seen[commspec.Shape{Comm: nccl.Comm{Nodes: g.Nodes, Ranks: g.Ranks}}] = true
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
		if s := (commspec.Shape{Comm: nccl.Comm{Nodes: nodes, Ranks: nodes * rpn}}); s.Ranks > 1 && (ranks < 0 || ranks == s.Ranks) {
			seen[s] = true
		}
	}
	for _, p := range policies {
		for _, r := range p.Rules {
			nodes, ranks, rpn := int(r.Numbers[policy.Nodes]), int(r.Numbers[policy.Ranks]), int(r.Numbers[policy.RanksPerNode])
			add(nodes, ranks, rpn)
			for _, n := range inShapes(r.When.Limits("nodes")) {
				add(n, ranks, rpn)
			}
			for _, n := range inShapes(r.When.Limits("ranks")) {
				add(nodes, n, rpn)
			}
			for _, n := range inShapes(r.When.Limits("ranks_per_node")) {
				add(nodes, ranks, n)
			}
		}
	}
	var shapes []commspec.Shape
	for s := range seen {
		shapes = append(shapes, s)
	}
	slices.SortFunc(shapes, func(a, b commspec.Shape) int {
		return cmp.Or(cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.Ranks, b.Ranks))
	})
	return shapes
}

// inShapes returns the numbers that a communicator of a usual size can have.
func inShapes(limits []uint64) (numbers []int) {
	for _, n := range limits {
		if n > 0 && n <= 1<<16 {
			numbers = append(numbers, int(n))
		}
	}
	return numbers
}

// withEdges adds to sampled sizes those between the first and the last at which a
// rule begins or ends, or that a condition names, and their neighbours, so that no
// rule hides between two samples.
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
			around(n)
		}
		for _, n := range r.When.Limits("bytes_per_rank") {
			if n <= last {
				around(n * uint64(ranks))
				around((n + 1) * uint64(ranks))
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Calls returns the pairs of pipe_ops and reg_buff that rules tell apart.
func Calls(rules []*policy.Rule) (pairs []Question) {
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
				tell(int(n) - 1)
				tell(int(n))
				tell(int(n) + 1)
			}
		}
		if r.Numbers[policy.RegBuff] == 1 && len(regBuffs) == 1 {
			regBuffs = append(regBuffs, 1)
		}
	}
	slices.Sort(pipeOps)
	for _, p := range pipeOps {
		for _, r := range regBuffs {
			pairs = append(pairs, Question{PipeOps: p, RegBuff: r})
		}
	}
	return pairs
}
