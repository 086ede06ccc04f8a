package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// choiceJSON is what a run of several configurations measures with one of them.
type choiceJSON struct {
	Algorithm string   `json:"algorithm"`
	Protocol  string   `json:"protocol"`
	Channels  int      `json:"channels,omitempty"`
	Sizes     []uint64 `json:"sizes"`
}

// contenders are the policies that are verified: of the configuration expected to be the fastest at each size, the second and the third.
var contenders = [...]string{"first", "second", "third"}

// verification plans to measure once more, in turns, the default and what may be faster: one start for the default and
// one for each of three policies, whatever the number of sizes and configurations.
func (f *planFlags) verification(space fit.Space, group *fit.Group) planJSON {
	p := planJSON{
		Collective: space.Coll.String(), Nodes: space.Nodes, Ranks: space.Ranks, Runs: []runJSON{},
		Why: "all sizes are verified",
	}
	p.Measured = len(group.Configs())
	if p.Done = group.IsVerified(space.Sizes); p.Done {
		return p
	}
	p.Why = fmt.Sprintf("the default and the %d best predicted at each size, in turns, %s", len(contenders), cli.CountOf(f.repetitions, "repetition"))
	base := fmt.Sprintf("%s-%dn-%dr-verify", space.Coll, space.Nodes, space.Ranks)
	policies := policiesOf(space, group)
	for rep := range f.repetitions {
		byDefault := runJSON{Sizes: space.Sizes, Env: map[string]string{}}
		byDefault.Commands = f.perf(space.Key, nil, space.Sizes, fmt.Sprintf("%s-rep%d-default", base, rep+1))
		p.Runs = append(p.Runs, byDefault)
		for k, rows := range policies {
			name := base + "-" + contenders[k]
			r := runJSON{Env: f.tuned(name)}
			var lines []string
			for _, row := range rows {
				c := choiceJSON{Algorithm: row.Algo.String(), Protocol: row.Proto.String(), Channels: row.Channels}
				for _, b := range space.Sizes {
					if row.Bytes.Contains(b) {
						c.Sizes = append(c.Sizes, b)
					}
				}
				r.Sizes, r.Configurations = append(r.Sizes, c.Sizes...), append(r.Configurations, c)
				lines = append(lines, row.String())
			}
			if rep == 0 {
				r.Commands = []string{fmt.Sprintf("printf '%%s\\n' %s > %s.csv", strings.Join(lines, " "), name)}
			}
			r.Commands = append(r.Commands, f.perf(space.Key, r.Env, r.Sizes, fmt.Sprintf("%s-rep%d-%s", base, rep+1, contenders[k]))...)
			p.Runs = append(p.Runs, r)
		}
	}
	return p
}

// policiesOf are the rows of each policy: stretches of sizes with one configuration.
func policiesOf(space fit.Space, group *fit.Group) (policies [][]fit.Row) {
	best, trimmed := space.Contenders(group), trimUnit(space.Key)-1
	for k := range contenders {
		var rows []fit.Row
		for i, b := range space.Sizes {
			if k >= len(best[b]) {
				continue
			}
			row := fit.Row{Key: space.Key, Config: best[b][k], Bytes: nccl.Range{Min: b - min(b, trimmed), Max: b}}
			if n := len(rows); n > 0 && rows[n-1].Config == row.Config && rows[n-1].Bytes.Max == space.Sizes[i-1] {
				rows[n-1].Bytes.Max = b
				continue
			}
			rows = append(rows, row)
		}
		if len(rows) > 0 {
			policies = append(policies, rows)
		}
	}
	return policies
}

// verifiable narrows or widens what is planned to what was measured.
func (f *planFlags) verifiable(space *fit.Space, group *fit.Group, sizesNamed bool) error {
	if group == nil || len(group.Cells) == 0 {
		return cli.Usagef("--verify: no configuration of %s was measured (plan without it first)", space.Key)
	}
	if !sizesNamed {
		space.Sizes = group.Sizes()
	}
	for _, c := range group.Configs() {
		if !slices.Contains(space.Families, c.FamilyKey) {
			space.Families = append(space.Families, c.FamilyKey)
		}
	}
	return nil
}
