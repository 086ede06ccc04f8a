package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/lint"
)

// shownOfRule is how many findings of one rule are printed before the rest is
// counted.
const shownOfRule = 3

// writeFindings prints findings, the worst first, each rule's together.
func writeFindings(w io.Writer, findings []lint.Finding, all bool) error {
	if len(findings) == 0 {
		_, err := fmt.Fprintln(w, "nothing found")
		return err
	}
	type kind struct {
		rule     string
		severity lint.Severity
	}
	groups := map[kind][]lint.Finding{}
	var order []kind
	var counts [lint.Error + 1]int
	for _, f := range findings {
		k := kind{f.Rule, f.Severity}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], f)
		counts[f.Severity]++
	}
	slices.SortStableFunc(order, func(a, b kind) int { return int(b.severity) - int(a.severity) })
	for _, k := range order {
		of := groups[k]
		shown := len(of)
		if !all && shown > shownOfRule+1 && k.severity < lint.Error {
			shown = shownOfRule
		}
		for _, f := range of[:shown] {
			fmt.Fprintln(w, f)
		}
		if more := len(of) - shown; more > 0 {
			fmt.Fprintf(w, "  and %d more, lines %d to %d [%s]\n", more, of[shown].Line, of[len(of)-1].Line, k.rule)
		}
	}
	if slices.ContainsFunc(findings, func(f lint.Finding) bool { return f.Rule == lint.Invalid }) {
		fmt.Fprintln(w, "the tuner refuses the policy; nothing else is looked for in it until the errors are gone")
	}
	_, err := fmt.Fprintf(w, "%s, %s, %s\n", cli.CountOf(counts[lint.Error], "error"), cli.CountOf(counts[lint.Warning], "warning"), cli.CountOf(counts[lint.Note], "note"))
	return err
}

// writeLintRules prints the rules as a table.
func writeLintRules(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "rule\tseverity\tfix\twhat")
	for _, r := range lint.Rules {
		fix := ""
		if r.Fixable {
			fix = "--fix"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", r.Name, r.Severity, fix, r.Summary)
	}
	return tw.Flush()
}
