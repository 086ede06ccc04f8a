package compare

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/plural"
)

// WriteText prints the table for a person, about 90 columns wide.
func (t *Table) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	what := map[bool]string{false: "run", true: "job profile"}[t.jobs]
	for _, s := range t.Sides {
		fmt.Fprintf(out, "%s: %s of %s\n", s.Name, plural.Of(s.Readings, "time"), plural.Of(s.Runs, what))
	}
	if len(t.Common) > 0 {
		fmt.Fprintf(out, "both: %s\n", strings.Join(t.Common, ", "))
	}
	for _, d := range t.Differences {
		fmt.Fprintf(out, "%s: %s -> %s\n", d.What, d.Before, d.After)
	}
	for i := range t.Groups {
		t.Groups[i].write(out, t)
	}
	if m := &t.Overall; t.jobs && m.Sizes > 0 {
		fmt.Fprintf(out, "\na step: %s of communication -> %s, %s\n", profile.Duration(m.Before),
			profile.Duration(m.After), m.result())
	} else if !t.jobs && len(t.Groups) > 1 {
		fmt.Fprintf(out, "\nall: %s\n", t.Overall.sentence())
	}
	t.conclude(out)
	return out.Flush()
}

func (g *Group) write(out io.Writer, t *Table) {
	name, four, five := g.Key.String(), "GB/s", "GB/s"
	if t.jobs {
		name, four, five = g.Coll.String()+" "+g.CommText(), "calls", "us/step"
	}
	fmt.Fprintf(out, "\n%s\n", name)
	before, after := cut(t.Sides[0].Name), cut(t.Sides[1].Name)
	fmt.Fprintf(out, "%9s %10s %10s %8s %8s %6s %-13s %-7s %5s %4s\n", "", before+" us", after+" us", four, five,
		"ratio", "[interval]", "", "p", "reps")
	for i := range g.Rows {
		r := &g.Rows[i]
		four, five = digits(r.Before.BusBW), digits(r.After.BusBW)
		if t.jobs {
			four, five = r.calls()
		}
		line := fmt.Sprintf("%9s %10s %10s %8s %8s %s %4s  %s", nccl.FormatBytes(r.Bytes), digits(r.Before.Micros),
			digits(r.After.Micros),
			four, five, r.Estimate.columns(t.verdict(r.Verdict)), reps(r), r.moved())
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
	switch m := &g.Mean; {
	case t.jobs && m.Sizes > 0:
		line := fmt.Sprintf("%9s %10s %10s %8s %8s %s", "a step", digits(m.Before), digits(m.After), "",
			signed(m.After-m.Before), m.columns(t.verdict(m.Verdict)))
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	case !t.jobs && m.Sizes > 1:
		fmt.Fprintf(out, "%9s %39s %s\n", "geomean", "", m.columns(m.verdict()))
	}
}

// verdict is nothing where none was sought: a job's profile has no repetitions.
func (t *Table) verdict(v Verdict) string {
	if t.jobs && v == Unknown {
		return ""
	}
	return v.String()
}

// calls are those of a step, and by how many microseconds these differ in a step.
func (r *Row) calls() (calls, difference string) {
	b, a := r.Before.Calls, r.After.Calls
	if b == 0 || a == 0 {
		return "-", "-"
	}
	if calls = fmt.Sprintf("%.4g", b); fmt.Sprintf("%.4g", a) != calls {
		calls += fmt.Sprintf(">%.4g", a)
	}
	return calls, signed(a*r.After.Micros - b*r.Before.Micros)
}

// signed writes three digits of microseconds at least.
func signed(us float64) string {
	if math.Abs(us) >= 100 {
		return fmt.Sprintf("%+.0f", us)
	}
	return fmt.Sprintf("%+.3g", us)
}

// cut is the start of a name, as wide as its column allows.
func cut(name string) string { return name[:min(len(name), 7)] }

// columns are the ratio, half its interval, the verdict and its probability.
func (e *Estimate) columns(verdict string) string {
	interval, p := "", ""
	if e.Verdict != Unknown {
		interval = e.interval()
		p = probability(float64(e.P))
	}
	return fmt.Sprintf("%6.3f %-13s %-7s %5s", e.Ratio, interval, verdict, p)
}

// sentence is a mean in words.
func (m *Mean) sentence() string {
	return "geometric mean of " + plural.Of(m.Sizes, "ratio") + " " + m.result()
}

// result is the ratio with what is known of it.
func (m *Mean) result() string {
	text := fmt.Sprintf("%.3f", m.Ratio)
	if m.Verdict != Unknown {
		text += " " + m.interval() + " p=" + probability(float64(m.P))
	}
	if text += " " + m.verdict(); m.test == nil && m.Before > 0 {
		return strings.TrimSuffix(text, " ~")
	}
	return text
}

// verdict has a question mark where it rests on the sizes alone.
func (m *Mean) verdict() string {
	if m.BySizes && (m.Verdict == Faster || m.Verdict == Slower) {
		return m.Verdict.String() + "?"
	}
	return m.Verdict.String()
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

func reps(r *Row) string {
	if r.Before.Reps == r.After.Reps {
		return strconv.Itoa(r.Before.Reps)
	}
	return fmt.Sprintf("%d+%d", r.Before.Reps, r.After.Reps)
}

// moved says what ran where that changed.
func (r *Row) moved() string {
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
	if t.jobs && t.Tested == 0 {
		fmt.Fprintln(out, "\nratio of times: below 1 is faster")
	} else {
		fmt.Fprintf(out, "\nof %s: %d slower (%d by more than %s), %d faster, the others ~, nothing is proven\n",
			plural.Of(all, "size"), slower, beyond, percent(t.Threshold), faster)
		fmt.Fprintf(out,
			"ratio of times: below 1 is faster; at most %s of the verdicts are luck, over all %s of the table\n",
			percent(t.Alpha), plural.Of(t.Tested, "ratio"))
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
