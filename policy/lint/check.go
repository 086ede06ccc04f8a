package lint

import (
	"errors"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// Options widen what is looked for.
type Options struct {
	// Machine returns NCCL's estimates of the machine for a communicator, or nil where it is not
	// known. nil: nothing is known of the machine.
	Machine func(nccl.Comm) *tuning.Tuning
	// Model is held against the rows. nil: there is none.
	Model *model.Model
}

// Check finds what is wrong with a policy file. The file's name is for messages only. Findings come
// in the file's order.
func Check(file string, text []byte, opt Options) []Finding {
	c := &check{file: file, opt: opt}
	p, err := policy.ReadCSV(file, text)
	if err != nil {
		return c.refused(err)
	}
	if c.sheet, err = policy.ReadSheet(text); err != nil {
		return c.refused(err)
	}
	for i := range p.Rules {
		r := &p.Rules[i]
		c.rows = append(c.rows, newRow(r))
	}
	if len(c.rows) == 0 {
		c.report(noRows, 0, "", "the policy has no rows")
	}
	for _, r := range c.rows {
		c.each(r)
	}
	c.duplicates()
	c.shadowed()
	c.overlaps()
	c.gaps()
	if opt.Model != nil {
		c.againstModel()
	}
	c.ignore(text)
	sortFindings(c.findings)
	return c.findings
}

// check is one run of Check.
type check struct {
	file     string
	opt      Options
	sheet    *policy.Sheet
	rows     []*row
	findings []Finding
}

func (c *check) refused(err error) []Finding {
	var problems policy.Problems
	if !errors.As(err, &problems) {
		problems = policy.Problems{{File: c.file, Text: err.Error()}}
	}
	for _, p := range problems {
		c.report(Invalid, p.Line, "", "%s", p.Text).Column = p.Column
	}
	return c.findings
}

// report adds a finding about a row's field of a column; "" means the whole row.
func (c *check) report(rule string, line int, column, format string, args ...any) *Finding {
	f := newFinding(rule, c.file, format, args...)
	f.Line = line
	if column != "" {
		f.Column, f.at = c.sheet.Field(line, column)
	}
	c.findings = append(c.findings, f)
	return &c.findings[len(c.findings)-1]
}

// fixBy lets Fix replace the field that the finding is about.
func (f *Finding) fixBy(text string) {
	if f.Column > 0 {
		f.Fixable, f.with = true, text
	}
}

// each looks at one row by itself.
func (c *check) each(r *row) {
	if r.never {
		c.report(neverAsked, r.Line, "collective", "NCCL asks no tuner about %s", c.sheet.String(r.Line, "collective"))
		return
	}
	switch {
	case r.key.wants[policy.Ranks] == 1:
		c.report(matchesNothing, r.Line, "", "NCCL asks nothing about a communicator of 1 rank")
		r.empty = true
	case r.empty:
		c.report(matchesNothing, r.Line, "",
			"no number of bytes is within both the limits of bytes (%s) and of bytes per rank (%s)", sizeText(r.Bytes),
			sizeText(r.BytesPerRank))
	}
	if r.empty {
		return
	}
	if want := r.Numbers[policy.RegBuff]; want >= 0 {
		c.report(regBuff, r.Line, "reg_buff",
			"reg_buff %d: each rank finds out by itself whether buffers are registered; ranks that differ would hang",
			want)
	}
	c.bound(r)
	if c.combination(r) {
		c.channels(r)
		c.chunk(r)
	}
}

// duplicates finds rows that say again what an earlier one says.
func (c *check) duplicates() {
	type saying struct {
		policy.Match
		policy.Ask
	}
	first := map[saying]int{}
	for _, r := range c.rows {
		if r.never {
			continue
		}
		s := saying{r.Match, r.Ask}
		s.Numbers = r.key.wants
		if line, ok := first[s]; ok {
			f := c.report(duplicate, r.Line, "", "the row says what line %d says", line)
			f.Fixable = true
			f.at, _ = c.sheet.Row(r.Line)
			r.idle = true
			continue
		}
		first[s] = r.Line
	}
}

// shadowed finds rows of which one earlier row matches all calls, and has each cell that they ask
// for. Rows that only several earlier ones hide together are not looked for.
func (c *check) shadowed() {
	for i, r := range c.rows {
		if !r.active() || r.idle {
			continue
		}
		by := slices.IndexFunc(c.rows[:i], func(e *row) bool { return e.hides(r) && !e.idle })
		if by >= 0 {
			r.idle = true
			c.report(shadowed, r.Line, "",
				"the row is never reached: line %d matches all that it matches, and comes first", c.rows[by].Line)
		}
	}
}

// hides reports whether no call reaches a row that comes after this one. One with a condition may
// not match, and hides nothing.
func (r *row) hides(later *row) bool {
	if r.When != nil || later.cells&^r.cells != 0 || !r.active() || !later.key.within(r.key) {
		return false
	}
	if ranks := later.wants[policy.Ranks]; ranks > 0 {
		sizes, ok := r.BytesFor(int(ranks))
		return ok && sizes.Holds(later.sizes)
	}
	return r.Bytes.Holds(later.Bytes) && r.BytesPerRank.Holds(later.BytesPerRank)
}
