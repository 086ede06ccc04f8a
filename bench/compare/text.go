package compare

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// WriteText prints the table for a person, about 90 columns wide.
func (t *Table) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	for _, s := range t.Sides {
		fmt.Fprintf(out, "%s: %s of %s\n", s.Name, wording.Plural(s.Readings, "time"), wording.Plural(s.Runs, "run"))
	}
	if len(t.Common) > 0 {
		fmt.Fprintf(out, "both: %s\n", strings.Join(t.Common, ", "))
	}
	for _, d := range t.Differences {
		fmt.Fprintf(out, "%s: %s -> %s\n", d.What, d.Before, d.After)
	}
	for i := range t.Sections {
		t.Sections[i].write(out, t)
	}
	if len(t.Sections) > 1 {
		fmt.Fprintf(out, "\nall: %s\n", t.Overall.sentence())
	}
	t.conclude(out)
	return out.Flush()
}

func (g *Section) write(out io.Writer, t *Table) {
	title := g.Series.String()
	if slices.ContainsFunc(t.Sections, func(o Section) bool { return o.Options != g.Options }) {
		title += ", " + cmp.Or(g.Options, "unknown options of nccl-tests")
	}
	fmt.Fprintf(out, "\n%s\n", title)
	before, after := cut(t.Sides[0].Name), cut(t.Sides[1].Name)
	fmt.Fprintf(out, "%9s %10s %10s %8s %8s %6s %-13s %-7s %5s %4s\n", "", before+" us", after+" us", "GB/s", "GB/s",
		"ratio", "[interval]", "", "p", "reps")
	for i := range g.Rows {
		r := &g.Rows[i]
		line := fmt.Sprintf("%9s %10s %10s %8s %8s %s %4s  %s", nccl.FormatBytes(r.Bytes), digits(r.Before.Micros),
			digits(r.After.Micros), digits(r.Before.BusBW), digits(r.After.BusBW), r.Estimate.columns(), reps(r),
			r.moved())
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
	if g.Mean.Sizes > 1 {
		fmt.Fprintf(out, "%9s %39s %s\n", "geomean", "", g.Mean.columns())
	}
}

// cut is the start of a name, as wide as its column allows.
func cut(name string) string { return name[:min(len(name), 7)] }

// columns are the ratio, its interval, the verdict and the probability.
func (e *Estimate) columns() string {
	interval, p := "", ""
	if e.Verdict != Unknown {
		interval = e.interval()
		p = probability(float64(e.P))
	}
	return fmt.Sprintf("%6.3f %-13s %-7s %5s", e.Ratio, interval, e.Verdict, p)
}

// sentence is a mean in words.
func (m *Mean) sentence() string {
	text := fmt.Sprintf("geometric mean of %s %.3f", wording.Plural(m.Sizes, "ratio"), m.Ratio)
	if m.Verdict != Unknown {
		text += " " + m.interval() + " p=" + probability(float64(m.P))
	}
	return text + " " + m.Verdict.String()
}

func probability(p float64) string {
	if p < 0.0005 {
		return "<.001"
	}
	return strconv.FormatFloat(p, 'f', 3, 64)
}

func (e *Estimate) interval() string {
	if e.High > 9.9995 {
		return fmt.Sprintf("[%.2f, %.3g]", e.Low, e.High)
	}
	return fmt.Sprintf("[%.3f,%.3f]", e.Low, e.High)
}

func reps(r *SizeResult) string {
	if r.Before.Reps == r.After.Reps {
		return strconv.Itoa(r.Before.Reps)
	}
	return fmt.Sprintf("%d+%d", r.Before.Reps, r.After.Reps)
}

// moved says what ran where that changed.
func (r *SizeResult) moved() string {
	if b, a := r.Before.Ran, r.After.Ran; b.Known() && a.Known() && b != a {
		return b.Label() + " -> " + a.Label()
	}
	return ""
}

// conclude sums up, and explains the columns that are easily misread.
func (t *Table) conclude(out io.Writer) {
	slower, all := t.Count(Slower)
	faster, _ := t.Count(Faster)
	beyond, _ := t.Slower()
	fmt.Fprintf(out, "\nof %s: %d slower (%d by more than %s), %d faster, %d without significant difference (~)\n",
		wording.Plural(all, "size"), slower, beyond, percent(t.Threshold), faster, all-slower-faster)
	fmt.Fprintf(out, "ratio of times: below 1 is faster; of %s tested, at most %s of the verdicts are chance\n",
		wording.Plural(t.Tested, "ratio"), percent(alpha))
	for _, g := range t.Sections {
		for _, u := range g.Unsteady {
			fmt.Fprintf(out, "unsteady: %s: %s\n", g.Series, u)
		}
	}
	for _, n := range t.Notes {
		fmt.Fprintf(out, "note: %s\n", n)
	}
}

// percent with two digits that mean something.
func percent(share float64) string {
	switch p := 100 * share; {
	case math.IsInf(p, 0), p >= 1000:
		return ">999 %"
	case p >= 9.95 || p == math.Trunc(p):
		return strconv.FormatFloat(p, 'f', 0, 64) + " %"
	default:
		return strconv.FormatFloat(p, 'f', 1, 64) + " %"
	}
}

// digits writes four of them.
func digits(v float64) string {
	switch {
	case v == 0:
		return "-"
	case v >= 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}
