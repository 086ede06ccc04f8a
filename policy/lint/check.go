package lint

import (
	"errors"
	"fmt"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// Options add to what is looked for.
type Options struct {
	// NCCL is the release that the policy is for; 0: not known.
	NCCL nccl.Version
	// Machine returns NCCL's estimates of the machine for a communicator, or nil where it is not
	// known. nil: nothing is known of the machine.
	Machine func(nccl.Comm) *tuning.Tuning
	// Model is compared with the rows. nil: there is none.
	Model *model.Model
	// Invariant looks for rows by which sums could vary, too.
	Invariant bool
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
		c.rows = append(c.rows, newRow(&p.Rules[i]))
	}
	if len(c.rows) == 0 {
		c.report(noRows, 0, "", "the policy has no rows")
	}
	if nccl.IsSimulated(text) {
		c.report(simulated, 0, "", "its times are simulated, not measured")
	}
	for _, r := range c.rows {
		c.each(r)
	}
	c.shadowed()
	c.overlaps()
	c.narrower()
	c.gaps()
	if opt.Model != nil {
		c.againstModel()
	}
	var vary policy.Problems
	if opt.Invariant {
		vary = p.CheckSums()
		c.sumOrders(vary)
	}
	c.ignore(text)
	for _, v := range vary { // the library refuses these, whatever is silenced
		c.report(sumsVary, v.Line, "", "%s", v.Text).Column = v.Column
	}
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

// report adds a finding about a row's field of a column; "" means the whole row, line 0 the whole file.
func (c *check) report(rule string, line int, column, format string, args ...any) *Finding {
	about, _ := RuleNamed(rule)
	f := Finding{Rule: rule, Severity: about.Severity, File: c.file, Line: line, Text: fmt.Sprintf(format, args...)}
	if column != "" {
		f.Column = c.sheet.ColumnNumber(column)
	}
	c.findings = append(c.findings, f)
	return &c.findings[len(c.findings)-1]
}

// each looks at one row by itself.
func (c *check) each(r *row) {
	if r.never {
		c.report(neverAsked, r.Line, "collective", "NCCL asks no tuner about %s", c.sheet.Field(r.Line, "collective"))
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
	if c.release(r) && c.combination(r) {
		c.channels(r)
		c.chunk(r)
	}
}

// shadowed finds rows that no call reaches, because one earlier row matches all their calls and has each cell that
// they ask for. It does not look for rows that only several earlier ones hide together.
func (c *check) shadowed() {
	for i, r := range c.rows {
		if !r.active() {
			continue
		}
		by := slices.IndexFunc(c.rows[:i], func(e *row) bool { return e.hides(r) })
		if by >= 0 {
			r.idle = true
			c.report(shadowed, r.Line, "",
				"the row is never reached: line %d matches all that it matches, and comes first", c.rows[by].Line)
		}
	}
}

// hides reports whether no call reaches a row that comes after this one. A row with a condition hides only rows
// with the same condition.
func (r *row) hides(later *row) bool {
	if r.When != nil && r.When != later.When || later.cells&^r.cells != 0 || !r.active() || !later.key.within(r.key) {
		return false
	}
	if ranks := later.wants[policy.Ranks]; ranks > 0 {
		sizes, ok := r.BytesFor(int(ranks))
		return ok && sizes.Holds(later.sizes)
	}
	return r.Bytes.Holds(later.Bytes) && r.BytesPerRank.Holds(later.BytesPerRank)
}
