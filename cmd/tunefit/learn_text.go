package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/commspec"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/plural"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// surely is how many standard errors make an effect sure. Intervals, of 95 %, are as wide either way.
const surely = 2

// estimated reports whether anything is known of an arm's effect. That of NCCL's choice is 0.
func estimated(a trial.Arm) bool { return a.Blocks > 0 && a.Error > 0 }

// leader is the arm that shortens steps for sure, and more than the others of its factor; nil: none does.
func leader(f trial.Factor) (best *trial.Arm) {
	for i, a := range f.Arms {
		if a.Dropped == "" && estimated(a) && a.Effect < -surely*a.Error && (best == nil || a.Effect < best.Effect) {
			best = &f.Arms[i]
		}
	}
	return best
}

func shape(f trial.Factor) string { return f.Coll + " " + commspec.SizeRange(f.MinBytes, f.MaxBytes) }

func percentOf(effect float64) string { return fmt.Sprintf("%+.1f %%", 100*effect) }

func effectRange(effect, err float64) string {
	return fmt.Sprintf("(%+.1f .. %+.1f)", 100*(effect-surely*err), 100*(effect+surely*err))
}

// headline says in a line what was tried, what it is worth and what it cost.
func headline(e trial.Evidence) string {
	if e.Blocks == 0 {
		return "Nothing has been tried yet."
	}
	text := fmt.Sprintf("%s of %s; step %s.", plural.Of(e.Blocks, "block"), profile.Duration(1e6*e.BlockSeconds),
		profile.Duration(1e6*e.StepSeconds))
	var best trial.Factor
	var most *trial.Arm
	leaders, settled, sum, variance := 0, 0, 0.0, 0.0
	for _, f := range e.Factors {
		if f.Settled {
			settled++
		}
		if a := leader(f); a != nil {
			leaders, sum, variance = leaders+1, sum+a.Effect, variance+a.Error*a.Error
			if most == nil || a.Effect < most.Effect {
				best, most = f, a
			}
		}
	}
	if most == nil {
		text += " Nothing makes steps shorter for sure."
	} else {
		text += fmt.Sprintf(" %s %s instead of %s: %s of the step %s.", shape(best), most.Config, best.Arms[0].Config,
			percentOf(most.Effect), effectRange(most.Effect, most.Error))
	}
	if leaders > 1 {
		text += fmt.Sprintf(" Together with %s: %s %s.", plural.Of(leaders-1, "other shape"), percentOf(sum),
			effectRange(sum, math.Sqrt(variance)))
	}
	cost := "Lost"
	if e.LostSteps < 0 {
		cost = "Gained"
	}
	return text + fmt.Sprintf(" %d of %s settled. %s so far: %s.", settled, plural.Of(len(e.Factors), "shape"), cost,
		plural.Of(int(math.Round(math.Abs(e.LostSteps))), "step"))
}

// standing says how far it has come, and what the comparison at the end has found.
func standing(e trial.Evidence) string {
	text := cmp.Or(map[trial.Learning]string{
		trial.Observing: "watching what the job calls",
		trial.Trying:    "trying",
		trial.Proving:   "comparing what was learned with what was in force before",
		trial.Learned:   "proven; the rows are in learned.csv",
		trial.Nothing:   "ended; nothing makes steps shorter for sure",
		trial.Stopped:   "stopped; the next job goes on from here",
	}[e.State], "not known")
	if e.Result != nil {
		text += ": " + e.Result.Verdict()
	}
	return text
}

// title names the communicator.
func title(l learned) string {
	text := strings.TrimSpace(l.Comm.String() + " " + l.Name)
	if l.alike > 1 {
		text += fmt.Sprintf(" (%d alike)", l.alike)
	}
	return text
}

// armVerdict says what is known of the i-th arm, in words.
func armVerdict(f trial.Factor, i int) string {
	a := f.Arms[i]
	switch {
	case i == 0:
		return "NCCL's choice"
	case a.Dropped == "worse":
		return "slower: dropped"
	case a.Dropped != "":
		return a.Dropped + ": dropped"
	case !estimated(a):
		return "not tried yet"
	case a.Effect < -surely*a.Error:
		return "faster"
	case f.Settled:
		return "no gain is proven"
	}
	return "open"
}

// kinds returns the first communicator of each kind, which counts the others.
func kinds(all []learned) (first []learned) {
	for i, l := range all {
		if i == 0 || l.compareKind(all[i-1]) != 0 {
			first = append(first, l)
		}
		first[len(first)-1].alike++
	}
	return first
}

func writeLearned(w io.Writer, all []learned) error {
	for i := range all {
		line := headline(all[i].Evidence)
		if len(all) > 1 {
			line = title(all[i]) + ": " + line
		}
		fmt.Fprintln(w, line)
	}
	for _, l := range kinds(all) {
		e := l.Evidence
		fmt.Fprintf(w, "\n%s, NCCL %s, machine %s, %s to %s: %s\n", title(l), cmp.Or(e.NCCL, "not known"),
			cmp.Or(e.Machine, "not known"), e.Began.Format("2006-01-02 15:04"), e.At.Format("2006-01-02 15:04"),
			standing(e))
		t := cli.NewTable(w)
		if len(e.Factors) > 0 {
			t.Row("collective", "size", "calls a step", "tried", "step time", "95 %", "ms a step", "blocks", "")
		}
		for _, f := range e.Factors {
			for j, a := range f.Arms {
				cells := []any{"", "", "", a.Config, "-", "-", "-", a.Blocks, armVerdict(f, j)}
				if j == 0 {
					cells[0], cells[1] = f.Coll, commspec.SizeRange(f.MinBytes, f.MaxBytes)
					cells[2] = fmt.Sprintf("%.4g", f.CallsPerStep)
				} else if estimated(a) {
					cells[4], cells[5] = percentOf(a.Effect), effectRange(a.Effect, a.Error)
					cells[6] = fmt.Sprintf("%+.1f", 1e3*a.Effect*e.StepSeconds)
				}
				t.Row(cells...)
			}
		}
		if err := t.Flush(); err != nil {
			return err
		}
		for _, why := range e.LeftOut {
			fmt.Fprintf(w, "not tried: %s\n", why)
		}
	}
	return nil
}
