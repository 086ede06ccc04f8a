package lint

// What all checks share: a file's rows with what they match, what NCCL is known to have, and the list of findings. The
// checks are in row_checks.go (one row), pairs.go (two rows) and model.go (rows and a model); rules.txt explains them.

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
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
func Check(file string, text []byte, opt Options) []Diagnostic {
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
		c.report("no-rows", 0, "", "the policy has no rows")
	}
	said := nccl.ReadRemarks(text)
	if said.Simulated {
		c.report("simulated", 0, "", "its times are simulated, not measured")
	}
	for _, r := range c.rows {
		c.each(r)
	}
	if nccl.IsRCCL(said.Measured) {
		c.ownTuner()
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
		c.report("sums-vary", v.Line, "", "%s", v.Text).Column = v.Column
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
	findings []Diagnostic
}

func (c *check) refused(err error) []Diagnostic {
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
func (c *check) report(rule string, line int, column, format string, args ...any) *Diagnostic {
	about, known := RuleNamed(rule)
	if !known {
		panic("no rule is called " + rule)
	}
	f := Diagnostic{Rule: rule, Severity: about.Severity, File: c.file, Line: line, Text: fmt.Sprintf(format, args...)}
	if column != "" {
		f.Column = c.sheet.ColumnNumber(column)
	}
	c.findings = append(c.findings, f)
	return &c.findings[len(c.findings)-1]
}

// each looks at one row by itself.
func (c *check) each(r *row) {
	if r.never {
		c.report("never-asked", r.Line, "collective", "NCCL asks no tuner about %s",
			c.sheet.Field(r.Line, "collective"))
		return
	}
	switch {
	case r.key.wants[policy.Ranks] == 1:
		c.report("matches-nothing", r.Line, "", "NCCL asks nothing about a communicator of 1 rank")
		r.empty = true
	case r.empty:
		c.report("matches-nothing", r.Line, "",
			"no number of bytes is within both the limits of bytes (%s) and of bytes per rank (%s)", r.Bytes,
			r.BytesPerRank)
	}
	if r.empty {
		return
	}
	if want := r.Numbers[policy.RegBuff]; want >= 0 {
		c.report("reg-buff", r.Line, "reg_buff",
			"reg_buff %d: each rank finds out by itself whether buffers are registered; ranks that differ would hang",
			want)
	}
	if nodes := c.sheet.Remarks(r.Line).Nodes; nodes > 0 {
		c.report("not-measured", r.Line, "", "carried over from %d nodes: nothing was measured where the row is for",
			nodes)
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
			c.report("shadowed", r.Line, "",
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

// Severity tells how bad a finding is.
type Severity int8

const (
	Note    Severity = iota // worth knowing, often intended
	Warning                 // does not do what it seems to ask for
	Error                   // the tuner refuses the whole file
)

func (s Severity) String() string { return [...]string{"note", "warning", "error"}[s] }

// MarshalText implements encoding.TextMarshaler.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Diagnostic is one thing that a rule found.
type Diagnostic struct {
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	File     string   `json:"file"`
	Line     int      `json:"line,omitempty"`   // from 1; left out: the whole file is meant
	Column   int      `json:"column,omitempty"` // the field's number in its row, from 1; left out: the whole row
	Text     string   `json:"text"`
}

// Position is file:line:column, as far as they are known.
func (f Diagnostic) Position() string {
	switch {
	case f.Line == 0:
		return f.File
	case f.Column == 0:
		return fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	return fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column)
}

func (f Diagnostic) String() string {
	return fmt.Sprintf("%s: %s: %s [%s]", f.Position(), f.Severity, f.Text, f.Rule)
}

// Worst returns the highest severity, and false without findings.
func Worst(findings []Diagnostic) (worst Severity, any bool) {
	for _, f := range findings {
		worst = max(worst, f.Severity)
	}
	return worst, len(findings) > 0
}

// sortFindings puts the file's order, within a line the worst first.
func sortFindings(findings []Diagnostic) {
	slices.SortStableFunc(findings, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(b.Severity, a.Severity), cmp.Compare(a.Rule, b.Rule),
			cmp.Compare(a.Column, b.Column), cmp.Compare(a.Text, b.Text))
	})
}

// ignore drops findings that the file silences, and reports silences that it cannot follow.
func (c *check) ignore(text []byte) {
	type silenced struct {
		line int // of the row
		rule string
	}
	said := map[silenced]bool{}
	add := func(at, row int, r nccl.Remarks) {
		for _, rule := range r.Ignored {
			said[silenced{row, rule}] = true
			if _, known := RuleNamed(rule); !known {
				c.report("bad-ignore", at, "", "no rule is called %q (%sallowed: see tunefit check --rules)", rule,
					wording.DidYouMean(rule, RuleNames()))
			}
		}
		for _, key := range r.Unknown {
			c.report("bad-ignore", at, "", "no remark is called %q (%sallowed: %s)", key,
				wording.DidYouMean(key, nccl.RemarkKeys), strings.Join(nccl.RemarkKeys, ", "))
		}
	}
	next := 0 // the row that follows
	for i, line := range bytes.Split(text, []byte("\n")) {
		for next < len(c.rows) && c.rows[next].Line <= i+1 {
			next++
		}
		switch r := nccl.ReadRemarks(line); {
		case next < len(c.rows):
			add(i+1, c.rows[next].Line, r)
		case r.Ignored != nil:
			c.report("bad-ignore", i+1, "", "no row follows")
		}
	}
	for _, r := range c.rows {
		var of nccl.Remarks
		of.Add(c.sheet.Field(r.Line, "comment"))
		add(r.Line, r.Line, of)
	}
	c.findings = slices.DeleteFunc(c.findings, func(f Diagnostic) bool { return said[silenced{f.Line, f.Rule}] })
}
