package main

import (
	"fmt"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// deciderFiles is what a decider's files name: communicators, sizes and calls worth
// asking about. What they decide, the plugin says.
type deciderFiles struct {
	policies []*policy.Policy
	model    *model.Model // nil: none
}

func (d decider) read() (f deciderFiles, err error) {
	if d.policy != "" {
		p, err := readPolicy(d.policy)
		if err != nil {
			return f, err
		}
		f.policies = []*policy.Policy{p}
	}
	if d.model != "" {
		text, err := readDecider(d.model, kindModel)
		if err != nil {
			return f, err
		}
		if f.model, err = model.Read(d.model, text); err != nil {
			return f, fmt.Errorf("%s is not a model:\n%w", d.model, err)
		}
	}
	return f, nil
}

// engine puts the files together as the plugin does. note says why the machine is not
// known where it has to be.
func (f deciderFiles) engine(from costFlags) (e *policy.Engine, note string) {
	var rows *policy.Policy
	if len(f.policies) > 0 {
		rows = f.policies[0]
	}
	var here *model.Machine
	if policy.NeedsTopology(rows, f.model) {
		var err error
		if here, _, err = tuner.FindMachine(from.getenv); err != nil {
			note = fmt.Sprintf("the topology of this machine is not known: %v", err)
		}
	}
	return policy.NewEngine(rows, f.model, here), note
}

// uncheckedNotes says what a policy and a model ask for AllGather that is left to a release
// of NCCL.
func (d decider) uncheckedNotes(view *policy.EngineView, version nccl.Version) (notes []string) {
	rows, first, model := view.UncheckedAllGathers()
	why := fmt.Sprintf("NCCL %s may use it unchecked for a group of broadcasts, and crash", version)
	if rows > 0 {
		notes = append(notes, fmt.Sprintf("%s:%d: the channel count is left to NCCL for allgather, as in %s in all: %s", d.policy, first.Line, countOf(rows, "row"), why))
	}
	if model {
		notes = append(notes, fmt.Sprintf("%s: configurations with a channel count are not used for allgather: %s", d.model, why))
	}
	return notes
}

// comm is the communicator as the plugin sees it in a release of NCCL.
func (s shape) comm(version nccl.Version) policy.Comm {
	return policy.Comm{Nodes: s.nodes, Ranks: s.ranks, NVLDomains: s.toldNVLDomains(), UncheckedAllGather: uncheckedAllGather(version)}
}

// uncheckedAllGather reports of a release what tuner.UncheckedAllGather tells from within.
func uncheckedAllGather(version nccl.Version) bool {
	return version.Has(nccl.UncheckedAllGathers) && !version.Has(nccl.CheckedAllGathers)
}

func (f deciderFiles) shapes() []shape { return namedShapes(f.policies, f.model) }

// rules are those that can match a collective on a communicator.
func (f deciderFiles) rules(coll nccl.Coll, s shape) (rules []*policy.Rule) {
	for _, p := range f.policies {
		rules = append(rules, rulesFor(p, coll, s)...)
	}
	return rules
}

// sizes adds to samples those at which a rule begins or ends and at which the model
// was measured.
func (f deciderFiles) sizes(samples []uint64, coll nccl.Coll, s shape) []uint64 {
	sizes := withEdges(samples, s.ranks, f.rules(coll, s))
	if f.model == nil {
		return sizes
	}
	for _, g := range f.model.File.Groups {
		if c, err := nccl.Colls.Parse(g.Coll); err != nil || c != coll || g.Ranks*s.nodes != s.ranks*g.Nodes {
			continue
		}
		for _, family := range g.Families {
			for _, curve := range family.Curves {
				for _, m := range curve.Measured {
					if b := uint64(m[0]); samples[0] <= b && b <= samples[len(samples)-1] {
						sizes = append(sizes, b)
					}
				}
			}
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}
