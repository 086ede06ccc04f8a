package command

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/compare"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// writeTable prints a comparison for a person, and explains the columns that are easily misread.
func writeTable(out io.Writer, t *compare.Table) {
	for _, s := range []compare.Side{t.Before, t.After} {
		fmt.Fprintf(out, "%s: %s of %s\n", s.Name, wording.Plural(s.Readings, "time"), wording.Plural(s.Runs, "run"))
	}
	if len(t.Common) > 0 {
		fmt.Fprintf(out, "both: %s\n", strings.Join(t.Common, ", "))
	}
	for _, d := range t.Differences {
		fmt.Fprintf(out, "%s: %s -> %s\n", d.What, d.Before, d.After)
	}
	for i := range t.Sections {
		writeSection(out, t, &t.Sections[i])
	}
	if len(t.Sections) > 1 {
		fmt.Fprintf(out, "\nall: %s\n", strings.Join(slices.DeleteFunc(append([]string{"geometric mean of",
			wording.Plural(t.Overall.Sizes, "ratio")}, estimate(&t.Overall.Estimate)...),
			func(word string) bool { return word == "" }), " "))
	}
	fmt.Fprintf(out, "\nof %s: %d slower (%d by more than %.3g %%), %d faster, %d without significant difference (~)\n",
		wording.Plural(t.Sizes, "size"), t.Slower, t.Beyond, 100*t.Threshold, t.Faster, t.Sizes-t.Slower-t.Faster)
	fmt.Fprintf(out, "ratio of times: below 1 is faster; of %s tested, at most %.3g %% of the verdicts are chance\n",
		wording.Plural(t.Tested, "ratio"), 100*compare.Alpha)
	for _, g := range t.Sections {
		for _, u := range g.Unsteady {
			fmt.Fprintf(out, "unsteady: %s: %s\n", g.Series, u)
		}
	}
	cli.Notes(out, t.Notes...)
}

func writeSection(out io.Writer, t *compare.Table, g *compare.Section) {
	title := g.Series.String()
	if slices.ContainsFunc(t.Sections, func(o compare.Section) bool { return o.Options != g.Options }) {
		title += ", " + cmp.Or(g.Options, "unknown options of nccl-tests")
	}
	fmt.Fprintf(out, "\n%s\n", title)
	table := cli.NewTable(out)
	row := func(what, before, after string, e *compare.Estimate, more ...any) {
		cells := []any{what, before, after}
		for _, cell := range estimate(e) {
			cells = append(cells, cell)
		}
		table.Row(append(cells, more...)...)
	}
	table.Row("size", t.Before.Name+" us", t.After.Name+" us", "ratio", "interval", "verdict", "p", "reps", "GB/s",
		"ran")
	for i := range g.Rows {
		r := &g.Rows[i]
		b, a := &r.Before, &r.After
		more := []any{changed(strconv.Itoa(b.Reps), strconv.Itoa(a.Reps)), changed(digits(b.BusBW), digits(a.BusBW))}
		if b.Ran.Known() && a.Ran.Known() {
			more = append(more, changed(b.Ran.Label(), a.Ran.Label()))
		}
		row(nccl.FormatBytes(r.Bytes), digits(b.Micros), digits(a.Micros), &r.Estimate, more...)
	}
	if g.Mean.Sizes > 1 {
		row("geomean", "", "", &g.Mean.Estimate)
	}
	table.Flush()
}

// changed writes a value before and after; once where it is the same.
func changed(before, after string) string {
	if before == after {
		return before
	}
	return before + " -> " + after
}

// estimate is the ratio, its interval, the verdict and the probability.
func estimate(e *compare.Estimate) []string {
	interval, p := "", ""
	switch {
	case e.Verdict == compare.Unknown:
	case e.High > 9.9995:
		interval = fmt.Sprintf("[%.2f, %.3g]", e.Low, e.High)
	default:
		interval = fmt.Sprintf("[%.3f,%.3f]", e.Low, e.High)
	}
	if e.Verdict != compare.Unknown {
		if p = fmt.Sprintf("%.3f", e.P); e.P < 0.0005 {
			p = "<.001"
		}
	}
	return []string{fmt.Sprintf("%.3f", e.Ratio), interval, e.Verdict.String(), p}
}

// digits writes four of them.
func digits(v float64) string {
	if v == 0 {
		return "-"
	}
	return strconv.FormatFloat(v, 'f', max(0, min(2, 3-int(math.Floor(math.Log10(v))))), 64)
}
