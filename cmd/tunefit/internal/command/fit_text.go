package command

import (
	"fmt"
	"io"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit/report"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

func writeRows(w io.Writer, set *fit.Set, rejected []fit.Refusal) {
	refused := set.Rows - set.Used
	for _, r := range rejected {
		refused += r.Rows
	}
	fmt.Fprintf(w, "measurements: %d used, %d refused\n", set.Used, refused)
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
	tw := cli.NewTable(w)
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
		fmt.Fprintf(w, "less time: compared with NCCL's choice, both as %s, corrected for the luck of a winner; it "+
			"may differ between the sizes measured\n", as)
	}
	if decided > 0 {
		fmt.Fprintf(w, "tried with %s left out of the fit: %d of %s more than 1 %% slower than NCCL's choice\n",
			model.LeftOutSizes, harm, wording.Plural(decided, "decision"))
	}
	if len(assumed) > 0 {
		fmt.Fprintf(w, "assumed: the noise of %s (too few repetitions to know it)\n", cli.Few(assumed, 8, ", "))
	}
	if floors := floorsOf(in); floors != (nccl.Floors{}) {
		fmt.Fprintf(w,
			"channels: as many as are chosen here were measured only under NCCL_MIN_NCHANNELS or NCCL_MIN_CTAS, so a "+
				"job needs %s (a log of the default with NCCL_DEBUG_SUBSYS=TUNING may show that it has them without; "+
				"tunefit sweep measures only what it has)\n", floors)
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
		fmt.Fprintln(w, "\nto know more:")
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
