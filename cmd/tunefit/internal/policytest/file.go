// Package policytest reads files of tests of a policy and runs them. A test has calls and what the policy must make
// of them.
package policytest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/commspec"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/plural"
)

// File is a file of tests of one policy, one model, or both.
type File struct {
	file string
	ask.Decider
	Costs ncclchoice.Flags // NCCL's choice comes from there
	cases []policyCase
}

// policyCase is one test: calls of some sizes, and what becomes of them.
type policyCase struct {
	name string
	line int

	call    ask.Question // without a size; the asker completes its communicator
	sizes   []uint64
	isRange bool // sizes are samples
	offer   ask.Offers
	expect  expectation
}

// expectation is what a test expects; nil where it does not say.
type expectation struct {
	algo     *nccl.Algo
	proto    *nccl.Proto
	channels *int    // 0: NCCL's own
	chunk    *uint64 // 0: NCCL's own
	row      *int
	comment  *string
	by       *string // one of deciders
}

// deciders are what can be expected to decide.
var deciders = []string{"nccl", "row", "model"}

// The fields of a file, of a test in it, and of what it expects.
type (
	fileFields struct{ Policy, Model, Topology, Tuning, NCCL, Tests yaml.Node }
	testFields struct {
		Name, Collective, Nodes, Ranks, Size, Available, Unavailable, Costs, Expect yaml.Node

		RanksPerNode yaml.Node `yaml:"ranks_per_node"`
		PipeOps      yaml.Node `yaml:"pipe_ops"`
		RegBuff      yaml.Node `yaml:"reg_buff"`
	}
	expectFields struct {
		Algorithm, Protocol, Channels, Chunk, Row, Comment yaml.Node

		DecidedBy yaml.Node `yaml:"decided_by"`
	}
)

// Read reads a file of tests. env is what its tests run in.
func Read(env ncclchoice.Env, file string) (*File, error) {
	content, err := env.Text(file, cli.KindTests)
	if err != nil {
		return nil, err
	}
	r := &reader{file: file}
	beside := func(name string) (string, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(file), name)
		}
		_, err := os.Stat(name)
		return name, err
	}
	var f fileFields
	r.note(yaml.Load(content, &f, yaml.WithKnownFields()), "the file", &f)
	t := &File{file: file, Costs: ncclchoice.Flags{Env: env}}
	t.Policy, t.Model = value(r, &f.Policy, "policy", beside), value(r, &f.Model, "model", beside)
	t.Costs.Topo, t.Costs.Tuning = value(r, &f.Topology, "topology", beside), value(r, &f.Tuning, "tuning", beside)
	if release := value(r, &f.NCCL, "nccl", nccl.ParseVersion); release != 0 {
		t.Costs.NCCL = release.String()
	}
	each(&f.Tests, func(n *yaml.Node) { t.cases = append(t.cases, r.policyCase(n)) })
	if len(r.problems) == 0 {
		switch {
		case t.Decider == ask.Decider{}:
			r.fail(&yaml.Node{Line: 1, Column: 1}, "the file names neither a policy nor a model")
		case t.Costs.Topo != "" && t.Costs.Tuning != "":
			r.fail(&yaml.Node{Line: 1, Column: 1}, "topology and tuning exclude each other")
		case len(t.cases) == 0:
			r.fail(&yaml.Node{Line: 1, Column: 1}, "the file has no tests")
		}
	}
	return t, r.err()
}

func (r *reader) policyCase(n *yaml.Node) policyCase {
	const most = commspec.MaxRanks
	before := len(r.problems)
	f := testFields{PipeOps: yaml.Node{Kind: yaml.ScalarNode, Value: "1"}}
	r.fields(n, "a test", &f)
	c := policyCase{line: n.Line, name: value(r, &f.Name, "name", text)}
	c.call.Coll = value(r, &f.Collective, "collective", nccl.Colls.Parse)
	c.call.PipeOps, c.call.RegBuff = value(r, &f.PipeOps, "pipe_ops", number(0, 1<<30)), value(r, &f.RegBuff,
		"reg_buff", number(0, 1))
	s := &c.call.Comm.Comm
	s.Nodes, s.Ranks = value(r, &f.Nodes, "nodes", number(1, most)), value(r, &f.Ranks, "ranks", number(2, most))
	perNode := value(r, &f.RanksPerNode, "ranks_per_node", number(1, most))
	each(&f.Size, func(n *yaml.Node) {
		sizes := value(r, n, "size", func(s string) (sizes []uint64, err error) {
			isRange := false
			sizes, isRange, err = commspec.ParseSizes(s)
			c.isRange = c.isRange || isRange
			return sizes, err
		})
		c.sizes = append(c.sizes, sizes...)
	})
	slices.Sort(c.sizes)
	c.sizes = slices.Compact(c.sizes)
	each(&f.Available, func(n *yaml.Node) { c.offer.Only = append(c.offer.Only, value(r, n, "available", parseCells)) })
	each(&f.Unavailable, func(n *yaml.Node) {
		c.offer.Never = append(c.offer.Never, value(r, n, "unavailable", parseCells))
	})
	c.offer.Micros = r.costs(&f.Costs)
	c.expect = r.expectation(&f.Expect)
	if len(r.problems) > before {
		return c
	}
	if s.Ranks == 0 {
		s.Ranks = s.Nodes * perNode
	}
	switch {
	case c.name == "":
		r.fail(n, "the test has no name")
	case f.Collective.Kind == 0:
		r.fail(n, "the test names no collective")
	case s.Nodes == 0 || s.Ranks == 0:
		r.fail(n, "the test names no communicator (needed: nodes, and ranks or ranks_per_node)")
	case s.Ranks < 2 || s.Ranks < s.Nodes || perNode > 0 && s.Ranks != s.Nodes*perNode:
		each := ""
		if perNode > 0 {
			each = fmt.Sprintf(", %d on each", perNode)
		}
		r.fail(n, "no communicator that NCCL asks about has %s on %s%s", plural.Of(s.Ranks, "rank"),
			plural.Of(s.Nodes, "node"), each)
	case len(c.sizes) == 0:
		r.fail(n, "the test names no size")
	case c.expect == expectation{}:
		r.fail(n, "the test expects nothing (needed: expect, with a field or more)")
	}
	return c
}

// parseCells parses ALGORITHM or ALGORITHM/PROTOCOL, with any, -1, for either.
func parseCells(s string) (c nccl.Cell, err error) {
	algo, proto, both := strings.Cut(s, "/")
	c = nccl.NoCell
	if algo != "any" {
		if c.Algo, err = nccl.Algos.Parse(algo); err != nil {
			return c, err
		}
	}
	if both && proto != "any" {
		c.Proto, err = nccl.Protos.Parse(proto)
	}
	return c, err
}

// costs reads NCCL's prediction for each cell that it has; nil where none is given.
func (r *reader) costs(n *yaml.Node) map[nccl.Cell]float32 {
	if n.Kind == 0 {
		return nil
	}
	var times map[string]yaml.Node
	if err := n.Load(&times); err != nil || len(times) == 0 {
		r.fail(n, "costs is no table of times (needed: microseconds for each cell, each once, as ring/simple: 42.5)")
	}
	table := map[nccl.Cell]float32{}
	for name, n := range times {
		c, err := parseCells(name)
		if err == nil && !c.Known() {
			err = fmt.Errorf("%q is not one cell (needed: ALGORITHM/PROTOCOL)", name)
		}
		if err != nil {
			r.fail(&n, "%v", err)
		}
		table[c] = value(r, &n, name, func(s string) (float32, error) {
			micros, err := strconv.ParseFloat(s, 32)
			if err != nil || !(micros > 0) || micros > 1e9 {
				return 0, fmt.Errorf("%q is no time (allowed: microseconds above 0, up to 1e9)", s)
			}
			return float32(micros), nil
		})
	}
	return table
}

// expectation reads what is expected. nccl as channels or chunk is NCCL's own.
func (r *reader) expectation(n *yaml.Node) expectation {
	var f expectFields
	r.fields(n, "expect", &f)
	e := expectation{
		algo:     optional(r, &f.Algorithm, "algorithm", nccl.Algos.Parse),
		proto:    optional(r, &f.Protocol, "protocol", nccl.Protos.Parse),
		channels: optional(r, &f.Channels, "channels", ownOr(number(1, nccl.MaxChannels))),
		chunk:    optional(r, &f.Chunk, "chunk", ownOr(nccl.ParseBytes)),
		row:      optional(r, &f.Row, "row", number(1, 1<<30)), comment: optional(r, &f.Comment, "comment", text),
	}
	e.by = optional(r, &f.DecidedBy, "decided_by", func(s string) (string, error) {
		if !slices.Contains(deciders, s) {
			return s, fmt.Errorf("%q (allowed: %s)", s, strings.Join(deciders, ", "))
		}
		return s, nil
	})
	if e.by != nil && *e.by != "row" && (e.row != nil || e.comment != nil) {
		r.fail(n, "a row cannot be expected of what %s decides", *e.by)
	}
	return e
}
