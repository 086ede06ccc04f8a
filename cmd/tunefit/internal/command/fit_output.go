package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit/report"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

func writeRows(w io.Writer, set *fit.Set, rejected []fit.Refusal) {
	refused, spare := set.Rows-set.Used, 0
	for _, r := range rejected {
		refused += r.Rows
	}
	for _, r := range set.Refused {
		if r.NotNeeded {
			spare += r.Rows
		}
	}
	notNeeded := ""
	if spare > 0 {
		notNeeded = fmt.Sprintf("%d not needed, ", spare)
	}
	fmt.Fprintf(w, "measurements: %d used, %s%d refused\n", set.Used, notNeeded, refused-spare)
	for _, r := range append(rejected, set.Refused...) {
		fmt.Fprintf(w, "  %d: %s\n", r.Rows, r.Reason)
	}
	for _, m := range set.Machines {
		if known := m.String(); known != "" {
			fmt.Fprintf(w, "  %s measured with %s\n", wording.Plural(m.Rows, "row"), known)
		}
	}
	for _, under := range set.Under() {
		only := ""
		if under.Variables != "" {
			only = " (for jobs with these variables only)"
		}
		fmt.Fprintf(w, "  measured under %s%s\n", under, only)
	}
	if set.Simulated > 0 {
		fmt.Fprintf(w, "  %d of those used are simulated, not measured\n", set.Simulated)
	}
}

// writeAnswer prints the recommendations, what they rest on, and what to do next.
func writeAnswer(w io.Writer, in report.Input) {
	if in.Worth != nil {
		writeWorth(w, in.Worth, in.Job, in.Set.Simulated > 0)
		fmt.Fprintln(w)
	}
	recommendations := report.Recommendations(in)
	tw := cli.NewList(w)
	gains := false
	decided, harm := 0, 0
	var assumed []string
	for _, v := range recommendations {
		tw.Row(v.Group(), v)
		decided, harm = decided+v.Tried, harm+v.Slower
		gains = gains || !v.Once() && (v.Advice == report.UseIt || v.Advice == report.UseWithCare)
		if v.NoiseAssumed {
			assumed = append(assumed, v.Group())
		}
	}
	tw.Flush()
	fmt.Fprintln(w)
	if gains {
		as := "measured"
		if in.Set.Simulated > 0 {
			as = "simulated, not measured"
		}
		fmt.Fprintf(w, "less time: compared with NCCL's default, both as %s, corrected for picking the best of "+
			"several noisy measurements; it may differ between the sizes measured\n", as)
	}
	if decided > 0 {
		fmt.Fprintf(w, "tried with %s left out of the fit: %d of %s more than 1 %% slower than NCCL's default\n",
			model.LeftOutSizes, harm, wording.Plural(decided, "decision"))
	}
	if len(assumed) > 0 {
		fmt.Fprintf(w, "assumed: the run-to-run variation of %s (too few repetitions to know it)\n",
			cli.Few(assumed, 8, ", "))
	}
	if floors := floorsOf(in); floors != (nccl.Floors{}) {
		fmt.Fprintf(w,
			"channels: as many as are chosen here were measured only under NCCL_MIN_NCHANNELS or NCCL_MIN_CTAS, so a "+
				"job needs %s (a log of the default with NCCL_DEBUG_SUBSYS=TUNING may show that it has them without; "+
				"tunefit sweep measures only what it has)\n", floors)
	}
	if len(in.Apart) > 0 {
		fmt.Fprintf(w,
			"graphs and eager runs choose differently (a policy of one is not for jobs that run the other):\n  %s\n",
			cli.Few(in.Apart, 8, "\n  "))
	}
	if len(in.Bandwidths) > 0 {
		fmt.Fprintf(w, "bus bandwidth: %s\n", strings.Join(in.Bandwidths, "\n               "))
	}
	for _, line := range report.CarriedOver(in.Rows) {
		fmt.Fprintln(w, line)
	}
	gaps := report.Gaps(in.Report)
	for _, f := range gaps {
		if f.Kind == report.NotOffered {
			fmt.Fprintln(w, f)
		}
	}
	if all := doubts(gaps); len(all) > 0 {
		fmt.Fprintf(w, "doubtful: %s\n", cli.Few(all, 8, "\n          "))
	}
	writeRows(w, in.Set, in.Rejected)
	if steps := report.Steps(gaps); len(steps) > 0 {
		fmt.Fprintln(w, "\nwhat to measure next:")
		for _, s := range steps {
			fmt.Fprintf(w, "  %s (%s)\n", s.Do, s.Where)
		}
	}
}

// floorsOf are the least numbers of channels that a job must force to have what the model and the rows choose.
func floorsOf(in report.Input) nccl.Floors {
	floors := in.Model.Floors()
	for _, r := range in.Rows {
		if r.Floored {
			floors.Add(r.Algo, r.Channels)
		}
	}
	return floors
}

// doubts are the gaps of measurements that contradict each other or vary.
func doubts(gaps []report.Gap) []string {
	all := []string{}
	for _, f := range gaps {
		if f.Kind == report.Contradictory || f.Kind == report.Varying {
			all = append(all, f.String())
		}
	}
	return all
}

// fitJSON is what fit --json prints: what the text says, and the files that hold the rest.
type fitJSON struct {
	Job      *worthJSON              `json:"job,omitempty"` // with --profile
	Groups   []report.Recommendation `json:"groups"`
	Doubtful []string                `json:"doubtful"`
	// where graphs and eager runs choose differently
	Apart      []string `json:"graphs_and_eager_differ,omitempty"`
	Bandwidths []string `json:"bus_bandwidths,omitempty"` // of the largest sizes; left out: the machine is not known
	// variables without which a job lacks channels that are chosen
	Needs        string            `json:"job_needs,omitempty"`
	Measurements int               `json:"measurements"` // used
	Simulated    int               `json:"simulated"`    // of them
	Refused      []fit.Refusal     `json:"refused"`
	ToDo         []report.NextStep `json:"to_do"`
	Rows         int               `json:"rows"`                   // of the policy
	NotMeasured  []string          `json:"not_measured,omitempty"` // rows for more nodes than were measured
	Model        string            `json:"model,omitempty"`        // files that were asked for
	Policy       string            `json:"policy,omitempty"`       // left out: no row would improve for sure
	Report       string            `json:"report,omitempty"`
}

// worthJSON is what decisions are worth to a job, in words and numbers.
type worthJSON struct {
	Headline string `json:"headline"`
	*fit.Worth
}

func newFitJSON(f *fitFlags, in report.Input) fitJSON {
	gaps := report.Gaps(in.Report)
	j := fitJSON{
		Groups: report.Recommendations(in), Doubtful: doubts(gaps), Apart: in.Apart,
		Bandwidths: in.Bandwidths, Measurements: in.Set.Used,
		Simulated: in.Set.Simulated, Refused: append(append([]fit.Refusal{}, in.Rejected...), in.Set.Refused...),
		ToDo: append([]report.NextStep{}, report.Steps(gaps)...), Rows: len(in.Rows),
		NotMeasured: report.CarriedOver(in.Rows), Model: f.model, Report: f.report,
	}
	if len(in.Rows) > 0 {
		j.Policy = f.csv
	}
	if in.Worth != nil {
		j.Job = &worthJSON{report.JobHeadline(in.Worth), in.Worth}
	}
	if floors := floorsOf(in); floors != (nccl.Floors{}) {
		j.Needs = floors.String()
	}
	return j
}

// writeWorth prints what decisions are worth to a job.
func writeWorth(out io.Writer, w *fit.Worth, job string, simulated bool) {
	fmt.Fprintf(out, "\n%s: %s\n", cli.Called(job), report.JobHeadline(w))
	for _, note := range report.JobCoverage(w) {
		fmt.Fprintf(out, "  %s\n", note)
	}
	if simulated && w.Covered > 0 {
		fmt.Fprintln(out, "  what was measured here is simulated in part or whole: this says nothing about the job")
	}
	if w.Covered == 0 {
		return
	}
	tw := cli.NewTable(out)
	tw.Row("in the job", "default", "policy", "best", "policy / default", "policy / best", "covered")
	row := func(name string, p fit.WorthSum) {
		tw.Row(name, profile.Duration(p.Default), profile.Duration(p.Policy), profile.Duration(p.Best),
			fmt.Sprintf("%.3f", p.Policy/p.Default), fmt.Sprintf("%.3f", p.Policy/p.Best),
			cli.Percent(p.Covered))
	}
	if len(w.Parts) > 1 {
		row("all", w.WorthSum)
	}
	for _, p := range w.Parts {
		row(p.Key.String(), p.WorthSum)
	}
	tw.Flush()
}
