package command

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/livejobs"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// title names the communicator.
func title(l learned) string {
	return strings.TrimSpace(l.Comm.String() + " " + l.Name)
}

// armVerdict says what is known of the i-th arm, in words.
func armVerdict(f trial.Factor, i int) string {
	a := f.Arms[i]
	switch {
	case i == 0 && !f.Known():
		return "NCCL's default, hardly tried: the others' figures may all be off by as much"
	case i == 0:
		return "NCCL's default"
	case a.Dropped == "worse" && a.Effect > trial.Surely*a.Error:
		return "slower: dropped"
	case a.Dropped == "worse":
		return "not the fastest: dropped"
	case a.Dropped != "":
		return a.Dropped + ": dropped"
	case !a.Estimated():
		return "not tried yet"
	case a.Faster:
		return "faster"
	case f.Settled:
		return "no significant gain"
	}
	return "open"
}

func writeLearned(w io.Writer, all []learned) {
	for i := range all {
		line := livejobs.LearningHeadline(*all[i].Evidence)
		if len(all) > 1 {
			line = title(all[i]) + ": " + line
		}
		fmt.Fprintln(w, line)
	}
	for _, l := range all {
		e := l.Evidence
		fmt.Fprintf(w, "\n%s, NCCL %s, machine %s, %s to %s: %s\n", title(l), cmp.Or(e.NCCL, "not known"),
			cmp.Or(e.Machine, "not known"), e.Began.Format("2006-01-02 15:04"), e.At.Format("2006-01-02 15:04"),
			livejobs.LearningState(*e))
		t := cli.NewTable(w)
		if len(e.Factors) > 0 {
			t.Row("collective", "size", "calls a step", "tried", "step time", "95 %", "ms a step", "blocks", "")
		}
		for _, f := range e.Factors {
			for j, a := range f.Arms {
				cells := []any{"", "", "", a.Config, "-", "-", "-", a.Blocks, armVerdict(f, j)}
				if j == 0 {
					cells[0], cells[1] = f.Coll, cli.SizeRange(f.Min, f.Max)
					cells[2] = fmt.Sprintf("%.4g", f.CallsPerStep)
				} else if a.Estimated() {
					cells[4], cells[5] = livejobs.EffectPercent(a.Effect), livejobs.EffectRange(a.Effect, a.Error)
					cells[6] = fmt.Sprintf("%+.1f", 1e3*a.Effect*e.StepSeconds)
				}
				t.Row(cells...)
			}
		}
		t.Flush()
		for _, why := range e.LeftOut {
			fmt.Fprintf(w, "not tried: %s\n", why)
		}
	}
}
