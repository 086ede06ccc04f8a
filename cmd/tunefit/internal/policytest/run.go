package policytest

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

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
	rows := rowTexts{Decider: t.Decider, sheet: a.Sheet(t.Decider)}
	for i := range t.cases {
		c := &t.cases[i]
		r, err := c.run(a, rows)
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
func (c *policyCase) run(a *ask.Asker, rows rowTexts) (r Result, err error) {
	a.CommName = c.CommName
	c.call.Comm = a.Comm(c.call.Comm.Comm)
	sizes, isRange := c.sizes()
	if isRange {
		sizes = a.Files.Sizes(sizes, c.call.Coll, c.call.Comm.Comm)
	}
	a.Offers = c.offers()
	outcomes, err := a.Ask(rows.Decider, c.call, sizes...)
	if err != nil {
		return Result{}, err
	}
	r = Result{Line: c.line, Name: c.Name}
	for _, o := range outcomes {
		if diff := c.Expect.compare(o, rows); len(diff) > 0 {
			call := fmt.Sprintf("%s %s on %s, %s%s", o.Coll, nccl.FormatBytes(o.Bytes),
				wording.Plural(o.Comm.Nodes, "node"), wording.Plural(o.Comm.Ranks, "rank"), o.CallText())
			r.Mismatch = append(r.Mismatch, mismatch{call, o.Bytes, diff})
		}
	}
	r.Passed = len(r.Mismatch) == 0
	return r, nil
}

// rowTexts names rows and knows their comments.
type rowTexts struct {
	ask.Decider
	sheet *policy.Sheet // nil without a policy
}

func (t rowTexts) comment(o ask.Outcome) string {
	if o.Row == 0 {
		return ""
	}
	return t.sheet.Field(o.Row, "comment")
}

// whoDecided names what decided, with the row's comment.
func (t rowTexts) whoDecided(o ask.Outcome) string {
	if comment := t.comment(o); comment != "" {
		return fmt.Sprintf("%s (%s)", o.DecidedBy(), comment)
	}
	return o.DecidedBy()
}

// compare returns the fields that are not as expected.
func (e *expectation) compare(o ask.Outcome, rows rowTexts) (diff []fieldDiff) {
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
		differs(*e.Row == o.Row, "row", fmt.Sprintf("%s:%d", rows.Policy, *e.Row), rows.whoDecided(o))
	}
	if e.Comment != nil {
		differs(o.Row > 0 && strings.Contains(rows.comment(o), *e.Comment), "comment", *e.Comment, rows.whoDecided(o))
	}
	if e.DecidedBy != "" {
		by := map[string]bool{"row": o.Row > 0, "model": o.ByModel, "nccl": o.Row == 0 && !o.ByModel}
		differs(by[string(e.DecidedBy)], "decided_by", string(e.DecidedBy), rows.whoDecided(o))
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
