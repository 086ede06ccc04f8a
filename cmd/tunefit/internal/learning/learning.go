// Package learning says in words what a job has learned on a communicator, as its evidence has it.
package learning

import (
	"cmp"
	"fmt"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/commspec"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// Shape names a kind of calls: allreduce 4KiB - 8KiB.
func Shape(f trial.Factor) string { return f.Coll.String() + " " + commspec.SizeRange(f.Min, f.Max) }

// Percent writes an effect: -2.1 %.
func Percent(effect float64) string { return fmt.Sprintf("%+.1f %%", 100*effect) }

// Range writes the 95 % interval of an effect, in percent: (-2.6 .. -1.7).
func Range(effect, err float64) string {
	return fmt.Sprintf("(%+.1f .. %+.1f)", 100*(effect-trial.Surely*err), 100*(effect+trial.Surely*err))
}

// Headline says in a line what was tried, what it is worth and what it cost.
func Headline(e trial.Evidence) string {
	switch {
	case e.Blocks == 0 && e.State == trial.Nothing:
		return "There was nothing to try."
	case e.Blocks == 0:
		return "Nothing has been tried yet."
	}
	text := fmt.Sprintf("%s of %s; step %s.", wording.Plural(e.Blocks, "block"), profile.Duration(1e6*e.BlockSeconds),
		profile.Duration(1e6*e.StepSeconds))
	var best trial.Factor
	var most *trial.Arm
	settled := 0
	for _, f := range e.Factors {
		if f.Settled {
			settled++
		}
		if k := f.Leader(); k > 0 && (most == nil || f.Arms[k].Effect < most.Effect) {
			best, most = f, &f.Arms[k]
		}
	}
	if most == nil {
		text += " Nothing makes steps shorter for sure."
	} else {
		text += fmt.Sprintf(" %s %s instead of %s: %s of the step %s.", Shape(best), most.Config, best.Arms[0].Config,
			Percent(most.Effect), Range(most.Effect, most.Error))
	}
	return text + fmt.Sprintf(" %d of %s settled. %s", settled, wording.Plural(len(e.Factors), "shape"), cost(e))
}

// cost says how many steps trying has lost or gained, with the interval of 95 %.
func cost(e trial.Evidence) string {
	half := trial.Surely * e.LostError
	switch {
	case e.LostSteps > half:
		return fmt.Sprintf("Lost so far: %.0f steps (%.0f .. %.0f).", e.LostSteps, e.LostSteps-half, e.LostSteps+half)
	case e.LostSteps < -half:
		return fmt.Sprintf("Gained so far: %.0f steps (%.0f .. %.0f).", -e.LostSteps, -e.LostSteps-half, -e.LostSteps+half)
	}
	return fmt.Sprintf("Not known whether steps are lost or gained so far: %.0f gained to %.0f lost.", half-e.LostSteps,
		half+e.LostSteps)
}

// Standing says how far it has come, and what the comparison at the end has found.
func Standing(e trial.Evidence) string {
	text := cmp.Or(map[trial.Learning]string{
		trial.Trying:  "trying",
		trial.Proving: "comparing what was learned with what was in force before",
		trial.Learned: "proven; the rows are in " + tuner.LearnedFile,
		trial.Nothing: "ended",
		trial.Stopped: "stopped; the next job goes on from here",
	}[e.State], "not known")
	if e.Result != nil {
		text += ": " + e.Result.Verdict()
	}
	return text
}
