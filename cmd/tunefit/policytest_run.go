package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/grid"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// caseResult is what became of one test.
type caseResult struct {
	File     string     `json:"file"`
	Line     int        `json:"line"`
	Name     string     `json:"name"`
	Passed   bool       `json:"passed"`
	Mismatch []mismatch `json:"mismatches,omitempty"`
}

// mismatch is one call that came out otherwise than expected.
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

// run asks the plugin about every test whose name matches.
func (t *policyTests) run(who cli.LibraryFlag, only *regexp.Regexp) (results []caseResult, asked *asker, shapes []grid.Shape, err error) {
	files, err := t.decider.read()
	if err != nil {
		return nil, nil, nil, err
	}
	a, err := newAsker(who, t.costs, t.decider)
	if err != nil {
		return nil, nil, nil, err
	}
	defer a.close()
	rows := rowTexts{decider: t.decider}
	if t.policy != "" {
		text, err := cli.ReadInput(t.policy, cli.KindPolicy)
		if err != nil {
			return nil, nil, nil, err
		}
		if rows.sheet, err = policy.ReadSheet(text); err != nil {
			return nil, nil, nil, err
		}
	}
	for i := range t.cases {
		c := &t.cases[i]
		if !only.MatchString(c.name) {
			continue
		}
		c.call.shape = c.call.shape.Through(a.abi)
		shapes = append(shapes, c.call.shape)
		r, err := c.run(a, files, rows)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("%s:%d: %s: %w", t.file, c.line, c.name, err)
		}
		r.File = t.file
		results = append(results, r)
	}
	return results, a, shapes, nil
}

func (c *policyCase) run(a *asker, files deciderFiles, rows rowTexts) (caseResult, error) {
	sizes := c.sizes
	if c.isRange {
		sizes = files.sizes(sizes, c.call.coll, c.call.shape)
	}
	questions := make([]question, len(sizes))
	for i, bytes := range sizes {
		questions[i] = c.call
		questions[i].bytes = bytes
	}
	a.offers = &c.offer
	outcomes, err := a.ask(rows.decider, c.call.shape, questions)
	if err != nil {
		return caseResult{}, err
	}
	r := caseResult{Line: c.line, Name: c.name}
	for _, o := range outcomes {
		if diff := c.expect.compare(o, rows); len(diff) > 0 {
			call := fmt.Sprintf("%s %s on %s, %s%s", o.coll, nccl.FormatBytes(o.bytes), cli.CountOf(o.shape.Nodes, "node"), cli.CountOf(o.shape.Ranks, "rank"), o.callText())
			r.Mismatch = append(r.Mismatch, mismatch{call, o.bytes, diff})
		}
	}
	r.Passed = len(r.Mismatch) == 0
	return r, nil
}

// rowTexts names rows and knows their comments.
type rowTexts struct {
	decider
	sheet *policy.Sheet // nil without a policy
}

func (t rowTexts) comment(o outcome) string {
	if o.row == 0 {
		return ""
	}
	return t.sheet.String(o.row, "comment")
}

// whoDecided names what decided, with the row's comment.
func (t rowTexts) whoDecided(o outcome) string {
	if comment := t.comment(o); comment != "" {
		return fmt.Sprintf("%s (%s)", o.decidedBy(t.decider), comment)
	}
	return o.decidedBy(t.decider)
}

// compare returns the fields that are not as expected.
func (e *expectation) compare(o outcome, rows rowTexts) (diff []fieldDiff) {
	differs := func(ok bool, field, expected, got string) {
		if !ok {
			diff = append(diff, fieldDiff{field, expected, got})
		}
	}
	got := func(name string) string {
		if o.policy.algo < 0 {
			return "none"
		}
		return name
	}
	ncclOr := func(n int64, text string) string {
		if n == 0 {
			return "nccl"
		}
		return text
	}
	if e.algo != nil {
		differs(*e.algo == o.policy.algo, "algorithm", e.algo.String(), got(o.policy.algo.String()))
	}
	if e.proto != nil {
		differs(*e.proto == o.policy.proto, "protocol", e.proto.String(), got(o.policy.proto.String()))
	}
	if e.channels != nil {
		differs(*e.channels == o.channels, "channels", ncclOr(int64(*e.channels), fmt.Sprint(*e.channels)), ncclOr(int64(o.channels), fmt.Sprint(o.channels)))
	}
	if e.chunk != nil {
		size := func(n int64) string { return ncclOr(n, nccl.FormatBytes(uint64(n))) }
		differs(*e.chunk == o.chunk, "chunk", size(*e.chunk), size(o.chunk))
	}
	if e.row != nil {
		differs(*e.row == o.row, "row", fmt.Sprintf("%s:%d", rows.policy, *e.row), rows.whoDecided(o))
	}
	if e.comment != nil {
		differs(o.row > 0 && strings.Contains(rows.comment(o), *e.comment), "comment", *e.comment, rows.whoDecided(o))
	}
	if e.by != nil {
		differs(*e.by == o.decidedByKind(), "decided_by", *e.by, rows.whoDecided(o))
	}
	return diff
}
