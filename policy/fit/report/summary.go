package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// Tone is the colour of the advice.
func (v Recommendation) Tone() string {
	switch v.Advice {
	case UseIt:
		return "good"
	case LeaveIt:
		return "none"
	}
	return "open"
}

// Sentence is Why as a sentence. Its numbers stay on one line with their units.
func (v Recommendation) Sentence() string {
	return strings.ToUpper(v.Why[:1]) +
		strings.NewReplacer(" %", "\u00a0%", " - ", "\u00a0–\u00a0").Replace(v.Why[1:]) + "."
}

// Range is the first and the last size measured.
func (v Recommendation) Range() string {
	if len(v.Spans) == 0 {
		return ""
	}
	return Span{From: v.Spans[0].From, To: v.Spans[len(v.Spans)-1].To}.Name()
}

// Rests says what the recommendation rests on.
func (v Recommendation) Rests() (all []string) {
	if noise := percent(v.Of.Group.Noise); v.NoiseAssumed {
		all = append(all,
			fmt.Sprintf("Assumed, not measured: that repetitions differ by %s. Too few were made to tell.", noise))
	} else if !v.Of.DefaultOnly {
		all = append(all, fmt.Sprintf("Repetitions differ by %s, as measured.", noise))
	}
	if v.WasTried() {
		all = append(all,
			fmt.Sprintf("With %s left out of the fit, it saved %s there [%s, %s], and %d of %d decisions were more "+
				"than 1 %% slower than NCCL’s.",
				model.LeftOutSizes, percent(1-v.VersusDefault.Mean), percent(1-v.VersusDefault.High),
				percent(1-v.VersusDefault.Low), v.Slower, v.Tried))
	}
	return all
}

// titleOf names the collectives and the communicators.
func titleOf(report *fit.Report) string {
	var colls, comms []string
	for _, r := range report.Groups {
		k := r.Group.Key
		coll, comm := k.Coll.String(), k.Comm.String()
		if !slices.Contains(colls, coll) {
			colls = append(colls, coll)
		}
		if !slices.Contains(comms, comm) {
			comms = append(comms, comm)
		}
	}
	if len(comms) > 6 {
		return fmt.Sprintf("%s on %d communicators", strings.Join(colls, ", "), len(comms))
	}
	return strings.Join(colls, ", ") + " on " + strings.Join(comms, ", ")
}
