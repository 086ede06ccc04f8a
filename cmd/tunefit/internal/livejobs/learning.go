package livejobs

import (
	"cmp"
	"fmt"
	"math"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// FactorShape names a kind of calls: allreduce 4KiB - 8KiB.
func FactorShape(f trial.Factor) string { return f.Coll.String() + " " + cli.SizeRange(f.Min, f.Max) }

// EffectPercent writes an effect: -2.1 %.
func EffectPercent(effect float64) string { return fmt.Sprintf("%+.1f %%", 100*effect) }

// EffectRange writes the 95 % interval of an effect, in percent: (-2.6 .. -1.7).
func EffectRange(effect, err float64) string {
	return fmt.Sprintf("(%+.1f .. %+.1f)", 100*(effect-trial.Surely*err), 100*(effect+trial.Surely*err))
}

// LearningHeadline says in a line what was tried, what it is worth and what it cost.
func LearningHeadline(e trial.Evidence) string {
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
		text += fmt.Sprintf(" %s %s instead of %s: %s of the step %s.", FactorShape(best), most.Config, best.Arms[0].Config,
			EffectPercent(most.Effect), EffectRange(most.Effect, most.Error))
	}
	cost := "Lost"
	if e.LostSteps < 0 {
		cost = "Gained"
	}
	return text + fmt.Sprintf(" %d of %s settled. %s so far: %s.", settled, wording.Plural(len(e.Factors), "shape"),
		cost, wording.Plural(int(math.Round(math.Abs(e.LostSteps))), "step"))
}

// LearningState says how far it has come, and what the comparison at the end has found.
func LearningState(e trial.Evidence) string {
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
