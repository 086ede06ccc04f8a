package main

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
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/costs"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/grid"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// policyTests is a file of tests of one policy, one model, or both.
type policyTests struct {
	file string
	ask.Decider
	costs costs.Flags // NCCL's own choice comes from there
	cases []policyCase
}

// policyCase is one test: calls that are alike but for their size, and what
// becomes of them.
type policyCase struct {
	name string
	line int

	call    ask.Question // but for its size
	sizes   []uint64
	isRange bool // sizes are samples
	offer   ask.Offers
	expect  expectation
}

// expectation is what a test expects; nil where it does not say.
type expectation struct {
	algo     *nccl.Algo
	proto    *nccl.Proto
	channels *int   // 0: NCCL's own
	chunk    *int64 // 0: NCCL's own
	row      *int
	comment  *string
	by       *string // one of deciders
}

// deciders are what can be expected to decide.
var deciders = []string{"nccl", "row", "model"}

// readPolicyTests reads a file of tests.
func readPolicyTests(file string) (*policyTests, error) {
	text, err := cli.ReadInput(file, cli.KindTests)
	if err != nil {
		return nil, err
	}
	y := &strictYAML{file: file}
	root, err := y.parse(text)
	if err != nil {
		return nil, err
	}
	t := &policyTests{file: file}
	path := func(name string, to *string) func(*yaml.Node) {
		return func(n *yaml.Node) {
			s, ok := y.text(n, name)
			if !ok {
				return
			}
			if !filepath.IsAbs(s) {
				s = filepath.Join(filepath.Dir(file), s)
			}
			if _, err := os.Stat(s); err != nil {
				y.fail(n, "%s: %v", name, err)
			}
			*to = s
		}
	}
	y.mapping(root, "the file", fields{
		"policy":   path("policy", &t.Policy),
		"model":    path("model", &t.Model),
		"topology": path("topology", &t.costs.Topo),
		"tuning":   path("tuning", &t.costs.Tuning),
		"nccl":     func(n *yaml.Node) { t.costs.NCCL = named(y, n, "nccl", nccl.ParseVersion).String() },
		"tests":    func(n *yaml.Node) { y.list(n, func(n *yaml.Node) { t.cases = append(t.cases, y.policyCase(n)) }) },
	})
	if len(y.problems) == 0 {
		switch {
		case t.Decider == ask.Decider{}:
			y.fail(root, "the file names neither a policy nor a model")
		case t.costs.Topo != "" && t.costs.Tuning != "":
			y.fail(root, "topology and tuning exclude each other")
		case len(t.cases) == 0:
			y.fail(root, "the file has no tests")
		}
	}
	return t, y.err()
}

func (y *strictYAML) policyCase(n *yaml.Node) policyCase {
	c := policyCase{line: n.Line, call: ask.Question{Coll: -1, PipeOps: 1}}
	before := len(y.problems)
	perNode := 0
	var nvl *yaml.Node
	y.mapping(n, "a test", fields{
		"name":           func(n *yaml.Node) { c.name, _ = y.text(n, "name") },
		"collective":     func(n *yaml.Node) { c.call.Coll = named(y, n, "collective", nccl.Colls.Parse) },
		"nodes":          func(n *yaml.Node) { c.call.Shape.Nodes = y.number(n, "nodes", 1, 1<<24) },
		"ranks":          func(n *yaml.Node) { c.call.Shape.Ranks = y.number(n, "ranks", 2, 1<<24) },
		"ranks_per_node": func(n *yaml.Node) { perNode = y.number(n, "ranks_per_node", 1, 1<<24) },
		"nvl_domains":    func(n *yaml.Node) { nvl, c.call.Shape.NVL = n, grid.NVLDomainsOf(y.number(n, "nvl_domains", 0, 1<<24)) },
		"size":           func(n *yaml.Node) { y.sizes(n, &c) },
		"pipe_ops":       func(n *yaml.Node) { c.call.PipeOps = y.number(n, "pipe_ops", 0, 1<<30) },
		"reg_buff":       func(n *yaml.Node) { c.call.RegBuff = y.number(n, "reg_buff", 0, 1) },
		"available":      func(n *yaml.Node) { y.list(n, func(n *yaml.Node) { c.offer.Only = append(c.offer.Only, y.cells(n)) }) },
		"unavailable": func(n *yaml.Node) {
			y.list(n, func(n *yaml.Node) { c.offer.Never = append(c.offer.Never, y.cells(n)) })
		},
		"costs":  func(n *yaml.Node) { c.offer.Micros = y.costs(n) },
		"expect": func(n *yaml.Node) { y.expectation(n, &c.expect) },
	})
	if len(y.problems) > before {
		return c
	}
	s := &c.call.Shape
	if s.Ranks == 0 {
		s.Ranks = s.Nodes * perNode
	}
	switch {
	case c.name == "":
		y.fail(n, "the test has no name")
	case c.call.Coll < 0:
		y.fail(n, "the test names no collective")
	case s.Nodes == 0 || s.Ranks == 0:
		y.fail(n, "the test names no communicator (needed: nodes, and ranks or ranks_per_node)")
	case s.Ranks < 2 || s.Ranks < s.Nodes || perNode > 0 && s.Ranks != s.Nodes*perNode:
		y.fail(n, "no communicator that NCCL asks about has %s on %s%s", cli.CountOf(s.Ranks, "rank"), cli.CountOf(s.Nodes, "node"), onEach(perNode))
	case int(s.NVL) > s.Ranks:
		_, err := s.Spanning(s.NVL)
		y.fail(nvl, "nvl_domains: %v", err)
	case len(c.sizes) == 0:
		y.fail(n, "the test names no size")
	case c.expect == expectation{}:
		y.fail(n, "the test expects nothing (needed: expect, with a field or more)")
	}
	return c
}

func onEach(perNode int) string {
	if perNode == 0 {
		return ""
	}
	return fmt.Sprintf(", %d on each", perNode)
}

// named reads a name that parse knows.
func named[T any](y *strictYAML, n *yaml.Node, what string, parse func(string) (T, error)) (v T) {
	s, ok := y.text(n, what)
	if !ok {
		return v
	}
	v, err := parse(s)
	if err != nil {
		y.fail(resolved(n), "%v", err)
	}
	return v
}

// sizes reads one size, a list of sizes or a range.
func (y *strictYAML) sizes(n *yaml.Node, c *policyCase) {
	y.list(n, func(n *yaml.Node) {
		s, ok := y.text(n, "size")
		if !ok {
			return
		}
		sizes, isRange, err := grid.ParseSizes(s)
		if err != nil {
			y.fail(n, "size: %v", err)
			return
		}
		c.sizes, c.isRange = append(c.sizes, sizes...), c.isRange || isRange
	})
	slices.Sort(c.sizes)
	c.sizes = slices.Compact(c.sizes)
}

// cells reads ALGORITHM or ALGORITHM/PROTOCOL, with any for either.
func (y *strictYAML) cells(n *yaml.Node) (c ask.CellName) {
	s, _ := y.text(n, "a cell")
	algo, proto, both := strings.Cut(s, "/")
	c = ask.CellName{Algo: -1, Proto: -1}
	if algo != "any" {
		a, err := nccl.Algos.Parse(algo)
		if err != nil {
			y.fail(n, "%v", err)
		}
		c.Algo = a
	}
	if both && proto != "any" {
		p, err := nccl.Protos.Parse(proto)
		if err != nil {
			y.fail(n, "%v", err)
		}
		c.Proto = p
	}
	return c
}

// costs reads NCCL's prediction for each cell that it has.
func (y *strictYAML) costs(n *yaml.Node) map[ask.Cell]float32 {
	table := map[ask.Cell]float32{}
	n = resolved(n)
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		y.fail(n, "costs is %s (needed: microseconds for each cell, as ring/simple: 42.5)", kindOf(n))
		return table
	}
	for i := 0; i < len(n.Content); i += 2 {
		c := y.cells(n.Content[i])
		s, _ := y.text(n.Content[i+1], "a cost")
		micros, err := strconv.ParseFloat(s, 32)
		switch {
		case c.Algo < 0 || c.Proto < 0:
			y.fail(n.Content[i], "%q is not one cell (needed: ALGORITHM/PROTOCOL)", n.Content[i].Value)
		case err != nil || !(micros > 0) || micros > 1e9:
			y.fail(n.Content[i+1], "%q is no time (allowed: microseconds above 0, up to 1e9)", s)
		}
		table[ask.Cell{Algo: c.Algo, Proto: c.Proto}] = float32(micros)
	}
	return table
}

// expectation reads what is expected. nccl as channels or chunk is NCCL's own.
func (y *strictYAML) expectation(n *yaml.Node, e *expectation) {
	orNCCL := func(n *yaml.Node) bool { return resolved(n).Kind == yaml.ScalarNode && resolved(n).Value == "nccl" }
	y.mapping(n, "expect", fields{
		"algorithm": func(n *yaml.Node) { a := named(y, n, "algorithm", nccl.Algos.Parse); e.algo = &a },
		"protocol":  func(n *yaml.Node) { p := named(y, n, "protocol", nccl.Protos.Parse); e.proto = &p },
		"channels": func(n *yaml.Node) {
			v := 0
			if !orNCCL(n) {
				v = y.number(n, "channels", 1, nccl.MaxChannels)
			}
			e.channels = &v
		},
		"chunk": func(n *yaml.Node) {
			v := int64(0)
			if !orNCCL(n) {
				v = int64(named(y, n, "chunk", nccl.ParseBytes))
			}
			e.chunk = &v
		},
		"row": func(n *yaml.Node) { v := y.number(n, "row", 1, 1<<30); e.row = &v },
		"comment": func(n *yaml.Node) {
			if s, ok := y.text(n, "comment"); ok {
				e.comment = &s
			}
		},
		"decided_by": func(n *yaml.Node) {
			s, _ := y.text(n, "decided_by")
			if !slices.Contains(deciders, s) {
				y.fail(n, "decided_by is %q (allowed: %s)", s, strings.Join(deciders, ", "))
			}
			e.by = &s
		},
	})
	if e.by != nil && *e.by != "row" && (e.row != nil || e.comment != nil) {
		y.fail(n, "a row cannot be expected of what %s decides", *e.by)
	}
}
