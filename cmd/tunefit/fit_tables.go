package main

import (
	"fmt"
	"io"
	"math"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit/report"
)

// writeTables prints what was measured and what came of it, then what the model does not
// know. report.Terms explains the words.
func writeTables(w io.Writer, report *fit.Report) {
	tw := cli.NewTable(w)
	tw.Row()
	tw.Row("collective", "configurations", "sizes", "noise", "gain", "as measured")
	for _, r := range report.Groups {
		g := r.Group
		if r.DefaultOnly {
			tw.Row(g.Key, "default only", sizesOf(g.Default))
			continue
		}
		noise := cli.Percent(g.Noise)
		if g.NoisePairs == 0 {
			noise += " assumed"
		}
		tw.Row(g.Key, len(g.Configs()), sizesOf(g.Points), noise, cli.Percent(r.Gain), cli.Percent(r.MeasuredGain))
	}
	tw.Flush()
	writeTrials(w, report.Groups)
	writeGaps(w, report)
}

func sizesOf(cells []fit.Point) string {
	least, most := uint64(math.MaxUint64), uint64(0)
	for _, c := range cells {
		least, most = min(least, c.Bytes), max(most, c.Bytes)
	}
	return nccl.FormatBytes(least) + " - " + nccl.FormatBytes(most)
}

// writeTrials prints the regret of decisions on data left out: mean [90 % interval], p95
// and max of the policy, then the means of what it has to beat.
func writeTrials(w io.Writer, groups []fit.GroupReport) {
	tw := cli.NewTable(w)
	headed := false
	for _, r := range groups {
		for _, v := range r.Verdicts {
			if !headed {
				headed = true
				tw.Row()
				tw.Row("left out", "collective", "regret of policy", "p95", "max", "plain", "default",
					"harm", "in 90 %")
			}
			s := v.Cautious
			name := r.Group.Key.String()
			if s.Decisions == 0 {
				s = v.Plain
				name += " (plain)"
			}
			harm, inside := "-", "-"
			if v.Cautious.Decisions > 0 {
				harm = fmt.Sprintf("%d of %d", v.Harm, v.Decided)
			}
			if v.Predicted > 0 {
				inside = fmt.Sprintf("%.0f %%", 100*float64(v.Inside)/float64(v.Predicted))
			}
			tw.Row(v.LeftOut, name, interval(s), ratio(s, s.P95), ratio(s, s.Max),
				ratio(v.Plain, v.Plain.Mean), ratio(v.Default, v.Default.Mean), harm, inside)
		}
	}
	tw.Flush()
	for _, r := range groups {
		for _, v := range r.Verdicts {
			if v.Cautious.Decisions > 0 && v.Plain.Decisions > 0 {
				fmt.Fprintf(w, "%s, %s left out: doing no harm %s\n", r.Group.Key, v.LeftOut, costOfCaution(v.Forgone))
			}
		}
	}
}

func costOfCaution(forgone float64) string {
	if forgone < 0 {
		return fmt.Sprintf("saves %.2f %% against always taking the fastest prediction", -100*forgone)
	}
	return fmt.Sprintf("costs %.2f %% against always taking the fastest prediction", 100*forgone)
}

func interval(s fit.Score) string {
	if s.Decisions == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f [%.3f, %.3f]", s.Mean, s.Low, s.High)
}

func ratio(s fit.Score, v float64) string {
	if s.Decisions == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", v)
}

// writeGaps lists what the model does not know, and why.
func writeGaps(w io.Writer, r *fit.Report) {
	fmt.Fprintln(w, "\nnot covered:")
	for _, f := range report.Findings(r) {
		fmt.Fprintf(w, "  %s\n", f)
	}
}
