// Package policytest reads files of tests of a policy, and runs them for tunefit check. A test is a collective, a
// communicator and sizes, and what must be decided about these calls: algorithm, protocol, channels, the row.
//
// Read parses a YAML file (file.go, values.go) and checks it as a whole. Run asks the engine about each call, as the
// library would (run.go).
package policytest

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// File is a file of tests, with the policy, the model, or both that they test.
type File struct {
	file string
	ask.Decider
	Costs ncclchoice.Flags // NCCL's choice comes from there
	cases []policyCase
}

// policyCase is one test: calls of some sizes, and what the policy must make of them.
type policyCase struct {
	Name         string
	Collective   *nccl.Coll
	Nodes, Ranks int
	RanksPerNode int    `yaml:"ranks_per_node"`
	PipeOps      *int   `yaml:"pipe_ops"`
	RegBuff      int    `yaml:"reg_buff"`
	CommName     string `yaml:"comm_name"`
	Size         oneOrMore[sizes]
	Unavailable  oneOrMore[cells]
	Costs        map[cells]micros // instead of NCCL's estimates
	Expect       expectation

	line int
	call ask.Question // for all sizes; run sets the size, and what an Asker knows of the communicator
}

// expectation is what a test expects; nil or empty where it does not say.
type expectation struct {
	Algorithm *nccl.Algo
	Protocol  *nccl.Proto
	Channels  *channels
	Chunk     *chunk
	Row       *int
	Comment   *string
	DecidedBy decider `yaml:"decided_by"`
}

// Read reads a file of tests. The policy or the model in of replaces the one that the file names. env is what the tests
// run in.
func Read(env ncclchoice.Env, name string, of ask.Decider) (*File, error) {
	content, err := env.Text(name, cli.KindTests)
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(content)) == 0 {
		return nil, fmt.Errorf("%s is empty (needed: tests of a policy)", name)
	}
	var file struct {
		Policy, Model, Topology string
		NCCL                    release
		Tests                   []policyCase
	}
	var document yaml.Node
	err = yaml.Load(content, &document)
	if err == nil {
		if p := tooWide(&document); p != nil {
			p.File = name
			return nil, policy.Problems{*p}
		}
		err = document.Load(&file, yaml.WithKnownFields())
	}
	if err != nil {
		return nil, problems(name, err, file)
	}
	beside := func(path string) string {
		if path == "" || filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(filepath.Dir(name), path)
	}
	t := &File{file: name, cases: file.Tests}
	t.Policy, t.Model = cmp.Or(of.Policy, beside(file.Policy)), cmp.Or(of.Model, beside(file.Model))
	t.Costs = ncclchoice.Flags{Env: env, Topo: beside(file.Topology), NCCL: string(file.NCCL)}
	if len(t.cases) == 0 {
		return nil, fmt.Errorf("%s: the file has no tests", name)
	}
	return t, nil
}

// tooWide finds a mapping with more keys than any test needs; nil: there is none. The YAML library compares each key
// with each other one, so a file with many would take minutes.
func tooWide(n *yaml.Node) *policy.Problem {
	const most = 100
	if n.Kind == yaml.MappingNode && len(n.Content) > 2*most {
		return &policy.Problem{Line: n.Line, Column: n.Column,
			Text: fmt.Sprintf("a mapping with %d keys (allowed: up to %d)", len(n.Content)/2, most)}
	}
	for _, child := range n.Content {
		if p := tooWide(child); p != nil {
			return p
		}
	}
	return nil
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (c *policyCase) UnmarshalYAML(n *yaml.Node) error {
	type test policyCase
	if err := n.Load((*test)(c), yaml.WithKnownFields()); err != nil {
		return err
	}
	c.line = n.Line
	return c.complete()
}

// complete checks what takes several fields to see, and sets c.call.
func (c *policyCase) complete() error {
	if c.Ranks == 0 {
		c.Ranks = c.Nodes * c.RanksPerNode
	}
	pipeOps := 1
	if c.PipeOps != nil {
		pipeOps = *c.PipeOps
	}
	switch {
	case c.Name == "":
		return errors.New("the test has no name")
	case c.Collective == nil:
		return errors.New("the test names no collective")
	case c.Nodes == 0 || c.Ranks == 0:
		return errors.New("the test names no communicator (needed: nodes, and ranks or ranks_per_node)")
	case c.Nodes < 1 || c.Ranks < 2 || c.Ranks < c.Nodes || c.Ranks > cli.MaxRanks,
		c.RanksPerNode != 0 && c.Ranks != c.Nodes*c.RanksPerNode:
		each := ""
		if c.RanksPerNode != 0 {
			each = fmt.Sprintf(", %d on each", c.RanksPerNode)
		}
		return fmt.Errorf("no communicator that NCCL asks about has %s on %s%s", wording.Plural(c.Ranks, "rank"),
			wording.Plural(c.Nodes, "node"), each)
	case pipeOps < 0 || c.RegBuff < 0 || c.RegBuff > 1:
		return fmt.Errorf("pipe_ops %d, reg_buff %d (allowed: 0 or more; 0 or 1)", pipeOps, c.RegBuff)
	case len(c.Size) == 0:
		return errors.New("the test names no size")
	case c.Expect == expectation{}:
		return errors.New("the test expects nothing (needed: expect, with a field or more)")
	case c.Expect.DecidedBy != "" && c.Expect.DecidedBy != "row" && (c.Expect.Row != nil || c.Expect.Comment != nil):
		return fmt.Errorf("a row cannot be expected of what %s decides", c.Expect.DecidedBy)
	}
	for at := range c.Costs {
		if !nccl.Cell(at).Known() {
			return errors.New("costs are of cells (needed: ALGORITHM/PROTOCOL and microseconds, as ring/simple: 42.5)")
		}
	}
	c.call = ask.Question{Call: nccl.Call{Coll: *c.Collective}, PipeOps: pipeOps, RegBuff: c.RegBuff}
	c.call.Comm.Comm = nccl.Comm{Nodes: c.Nodes, Ranks: c.Ranks}
	return nil
}

// sizes returns a test's sizes in bytes, ascending and without repetition. isRange says that they are samples of a
// range.
func (c *policyCase) sizes() (all []uint64, isRange bool) {
	for _, s := range c.Size {
		all, isRange = append(all, s.bytes...), isRange || s.isRange
	}
	slices.Sort(all)
	return slices.Compact(all), isRange
}

// offers returns what the test says of NCCL's cost table: cells that are not available, and costs in place of NCCL's.
func (c *policyCase) offers() *ask.Offers {
	o := &ask.Offers{Micros: map[nccl.Cell]float32{}}
	for _, at := range c.Unavailable {
		o.Never = append(o.Never, nccl.Cell(at))
	}
	for at, us := range c.Costs {
		o.Micros[nccl.Cell(at)] = float32(us)
	}
	return o
}
