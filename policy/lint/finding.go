package lint

import (
	"cmp"
	"fmt"
	"slices"
)

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

// Finding is one thing that a rule found.
type Finding struct {
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	File     string   `json:"file"`
	Line     int      `json:"line,omitempty"`   // from 1; left out: the whole file is meant
	Column   int      `json:"column,omitempty"` // the field's number in its row, from 1; left out: the whole row
	Text     string   `json:"text"`
}

// Position is file:line:column, as far as they are known.
func (f Finding) Position() string {
	switch {
	case f.Line == 0:
		return f.File
	case f.Column == 0:
		return fmt.Sprintf("%s:%d", f.File, f.Line)
	}
	return fmt.Sprintf("%s:%d:%d", f.File, f.Line, f.Column)
}

func (f Finding) String() string {
	return fmt.Sprintf("%s: %s: %s [%s]", f.Position(), f.Severity, f.Text, f.Rule)
}

// Worst returns the highest severity, and false without findings.
func Worst(findings []Finding) (worst Severity, any bool) {
	for _, f := range findings {
		worst = max(worst, f.Severity)
	}
	return worst, len(findings) > 0
}

// sortFindings puts the file's order, within a line the worst first.
func sortFindings(findings []Finding) {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(b.Severity, a.Severity), cmp.Compare(a.Rule, b.Rule),
			cmp.Compare(a.Column, b.Column), cmp.Compare(a.Text, b.Text))
	})
}
