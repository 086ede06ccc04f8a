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
	"io"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// File is a file of tests, with the policy, the model, or both that they test.
type File struct {
	file string
	ask.Decider
	Costs ask.Flags // NCCL's choice comes from there
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
func Read(env cli.Env, name string, of ask.Decider) (*File, error) {
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
	t.Costs = ask.Flags{Env: env, Topo: beside(file.Topology), NCCL: string(file.NCCL)}
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

// Result is what became of one test.
type Result struct {
	File     string     `json:"file"`
	Line     int        `json:"line"`
	Name     string     `json:"name"`
	Passed   bool       `json:"passed"`
	Mismatch []mismatch `json:"mismatches,omitempty"`
}

// mismatch is a call whose decision is not as expected.
type mismatch struct {
	Call   string      `json:"call"`
	Bytes  uint64      `json:"bytes"`
	Fields []fieldDiff `json:"fields"`
}

type fieldDiff struct {
	Field    string `json:"field"`
	Expected string `json:"expected"`
	Got      string `json:"got"`
}

// Run asks about the calls of every test. asked and comms are for what the command prints besides: the notes of the
// engine, and the communicator of each test.
func (t *File) Run() (results []Result, asked *ask.Asker, comms []policy.Comm, err error) {
	a, err := ask.NewAsker(t.Costs, t.Decider)
	if err != nil {
		return nil, nil, nil, err
	}
	for i := range t.cases {
		c := &t.cases[i]
		r, err := c.run(a, t.Decider)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("%s:%d: %s: %w", t.file, c.line, c.Name, err)
		}
		r.File = t.file
		comms = append(comms, c.call.Comm)
		results = append(results, r)
	}
	return results, a, comms, nil
}

// run asks about one test. A range of sizes grows by those at which the files' own ranges begin and end, so that an
// error at a border is found.
func (c *policyCase) run(a *ask.Asker, by ask.Decider) (r Result, err error) {
	a.CommName = c.CommName
	c.call.Comm = a.Comm(c.call.Comm.Comm)
	sizes, isRange := c.sizes()
	if isRange {
		sizes = a.Files.Sizes(sizes, c.call.Coll, c.call.Comm.Comm)
	}
	a.Offers = c.offers()
	outcomes, err := a.Ask(by, c.call, sizes...)
	if err != nil {
		return Result{}, err
	}
	r = Result{Line: c.line, Name: c.Name}
	for _, o := range outcomes {
		if diff := c.Expect.compare(o, by.Policy); len(diff) > 0 {
			call := fmt.Sprintf("%s %s on %s, %s%s", o.Coll, nccl.FormatBytes(o.Bytes),
				wording.Plural(o.Comm.Nodes, "node"), wording.Plural(o.Comm.Ranks, "rank"), o.CallText())
			r.Mismatch = append(r.Mismatch, mismatch{call, o.Bytes, diff})
		}
	}
	r.Passed = len(r.Mismatch) == 0
	return r, nil
}

// whoDecided names what decided, with the row's comment.
func whoDecided(o ask.Outcome) string {
	if o.Comment != "" {
		return fmt.Sprintf("%s (%s)", o.DecidedBy(), o.Comment)
	}
	return o.DecidedBy()
}

// compare returns the fields that are not as expected.
func (e *expectation) compare(o ask.Outcome, file string) (diff []fieldDiff) {
	differs := func(ok bool, field, expected, got string) {
		if !ok {
			diff = append(diff, fieldDiff{field, expected, got})
		}
	}
	got := func(name string) string {
		if o.Policy.Algo < 0 {
			return "none"
		}
		return name
	}
	ncclOr := func(n int64, text string) string { // 0 is written as nccl in files of tests
		if n == 0 {
			return "nccl"
		}
		return text
	}
	if e.Algorithm != nil {
		differs(*e.Algorithm == o.Policy.Algo, "algorithm", e.Algorithm.String(), got(o.Policy.Algo.String()))
	}
	if e.Protocol != nil {
		differs(*e.Protocol == o.Policy.Proto, "protocol", e.Protocol.String(), got(o.Policy.Proto.String()))
	}
	if e.Channels != nil {
		differs(int(*e.Channels) == o.Policy.Channels, "channels", ncclOr(int64(*e.Channels), fmt.Sprint(*e.Channels)),
			ncclOr(int64(o.Policy.Channels), fmt.Sprint(o.Policy.Channels)))
	}
	if e.Chunk != nil {
		size := func(n uint64) string { return ncclOr(int64(n), nccl.FormatBytes(n)) }
		differs(*e.Chunk == chunk(o.Chunk), "chunk", size(uint64(*e.Chunk)), size(uint64(o.Chunk)))
	}
	if e.Row != nil {
		differs(*e.Row == o.Row, "row", fmt.Sprintf("%s:%d", file, *e.Row), whoDecided(o))
	}
	if e.Comment != nil {
		differs(o.Row > 0 && strings.Contains(o.Comment, *e.Comment), "comment", *e.Comment, whoDecided(o))
	}
	if e.DecidedBy != "" {
		by := map[string]bool{"row": o.Row > 0, "model": o.ByModel, "nccl": o.Row == 0 && !o.ByModel}
		differs(by[string(e.DecidedBy)], "decided_by", string(e.DecidedBy), whoDecided(o))
	}
	return diff
}

// Write prints what failed, and how many passed.
func Write(w io.Writer, results []Result) {
	failed := 0
	for _, r := range results {
		if r.Passed {
			continue
		}
		failed++
		fmt.Fprintf(w, "FAIL %s:%d: %s\n", r.File, r.Line, wording.Line(r.Name))
		tw := cli.NewList(w)
		for i, m := range r.Mismatch {
			if i > 0 && slices.Equal(m.Fields, r.Mismatch[i-1].Fields) {
				continue
			}
			more := ""
			if n := alikeFrom(r.Mismatch[i:]); n > 1 {
				more = fmt.Sprintf(", and %d more sizes", n-1)
			}
			tw.Flush()
			fmt.Fprintf(w, "  %s%s:\n", m.Call, more)
			for _, f := range m.Fields {
				tw.Row("    "+f.Field, "expected "+f.Expected, "got "+f.Got)
			}
		}
		tw.Flush()
	}
	verdict := "ok:"
	if failed > 0 {
		verdict = fmt.Sprintf("FAIL: %d of", failed)
	}
	fmt.Fprintf(w, "%s %s\n", verdict, wording.Plural(len(results), "test"))
}

// alikeFrom counts the leading mismatches that are like the first.
func alikeFrom(all []mismatch) (n int) {
	for n < len(all) && slices.Equal(all[n].Fields, all[0].Fields) {
		n++
	}
	return n
}

// The values in a file of tests. The YAML library calls their UnmarshalText, and adds the place to their errors.
type (
	release  string    // of NCCL
	channels int       // 0: NCCL's own
	chunk    uint64    // 0: NCCL's own
	micros   float32   // a time
	cells    nccl.Cell // an algorithm or a protocol of -1 is any
	decider  string    // nccl, row or model
	sizes    struct {
		bytes   []uint64
		isRange bool // bytes are samples
	}
)

// oneOrMore is a list. A single value stands for a list of one.
type oneOrMore[T any] []T

// UnmarshalYAML implements yaml.Unmarshaler.
func (l *oneOrMore[T]) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.SequenceNode {
		return n.Load((*[]T)(l))
	}
	*l = make([]T, 1)
	return n.Load(&(*l)[0])
}

func (r *release) UnmarshalText(text []byte) error {
	v, err := nccl.ParseVersion(string(text))
	*r = release(v.String())
	return err
}

func (c *channels) UnmarshalText(text []byte) error {
	if *c = 0; string(text) == "nccl" {
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 || n > nccl.MaxChannels {
		return fmt.Errorf("channels: %s (allowed: nccl, 1 to %d)", wording.Quote(string(text)),
			nccl.MaxChannels)
	}
	*c = channels(n)
	return nil
}

func (c *chunk) UnmarshalText(text []byte) error {
	if *c = 0; string(text) == "nccl" {
		return nil
	}
	n, err := nccl.ParseBytes(string(text))
	*c = chunk(n)
	return err
}

func (m *micros) UnmarshalText(text []byte) error {
	us, err := strconv.ParseFloat(string(text), 32)
	if err != nil || !(us > 0) || us > 1e9 {
		return fmt.Errorf("%s is no time (allowed: microseconds above 0, up to 1e9)", wording.Quote(string(text)))
	}
	*m = micros(us)
	return nil
}

// UnmarshalText reads ALGORITHM or ALGORITHM/PROTOCOL, with any for either.
func (c *cells) UnmarshalText(text []byte) (err error) {
	algo, proto, both := strings.Cut(string(text), "/")
	*c = cells(nccl.NoCell)
	if algo != "any" {
		c.Algo, err = nccl.Algos.Parse(algo)
	}
	if err == nil && both && proto != "any" {
		c.Proto, err = nccl.Protos.Parse(proto)
	}
	return err
}

func (d *decider) UnmarshalText(text []byte) error {
	if *d = decider(text); *d != "nccl" && *d != "row" && *d != "model" {
		return fmt.Errorf("decided_by: %s (allowed: nccl, row, model)", wording.Quote(string(text)))
	}
	return nil
}

func (s *sizes) UnmarshalText(text []byte) (err error) {
	s.bytes, s.isRange, err = cli.ParseSizes(string(text))
	return err
}

// unknownField is what the YAML library says of one.
var unknownField = regexp.MustCompile(`^field (.*) not found in type (.*)$`)

// problems lists the YAML library's errors with their places. top is the value of a whole file.
func problems(file string, err error, top any) error {
	var all policy.Problems
	add := func(e *yaml.LoadError, text string) {
		all = append(all, policy.Problem{File: file, Line: max(e.Mark.Line, 1), Column: e.Mark.Column, Text: text})
	}
	var several *yaml.LoadErrors
	var one *yaml.LoadError
	switch {
	case errors.As(err, &several):
		for _, e := range several.Errors {
			text := wording.Line(strings.TrimPrefix(e.Message, "yaml: "))
			if m := unknownField.FindStringSubmatch(text); m != nil {
				text = unknown(m[1], m[2], top)
			}
			add(e, text)
		}
	case errors.As(err, &one):
		add(one, "not YAML: "+one.Message)
	default:
		return fmt.Errorf("%s: not YAML: %w", file, err)
	}
	return all
}

// unknown says what a field may have been meant as. of is the name of the Go type that has no such field.
func unknown(field, of string, top any) string {
	at := reflect.TypeOf(top)
	switch of {
	case "policytest.test":
		at = reflect.TypeFor[policyCase]()
	case "policytest.expectation":
		at = reflect.TypeFor[expectation]()
	}
	var names []string
	for f := range at.Fields() {
		if f.IsExported() {
			names = append(names, cmp.Or(f.Tag.Get("yaml"), strings.ToLower(f.Name)))
		}
	}
	slices.Sort(names)
	return fmt.Sprintf("unknown field %s (%sallowed: %s)", wording.Quote(field), wording.DidYouMean(field, names),
		strings.Join(names, ", "))
}
