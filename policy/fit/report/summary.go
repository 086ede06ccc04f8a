package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// summary is one group's card, and its line in the table. Shares are of the default's
// time; NaN: not known.
type summary struct {
	Verdict
	Name        string
	Index       int
	Configs     int
	Sizes       string
	Measured    int       // sizes
	LeftOut     string    // of Held; empty: nothing was
	Held        fit.Score // policy / default, left out
	HeldBest    fit.Score // policy / best
	HeldDefault fit.Score
	Noise       float64
}

func newSummary(r *fit.GroupReport, decisions []decision) summary {
	s := summary{
		Verdict: newVerdict(r, decisions), Name: r.Group.Key.String(), Configs: len(r.Group.Configs()), Measured: len(decisions),
		Noise: r.Group.Noise,
	}
	if len(decisions) > 0 {
		s.Sizes = sizeName(decisions[0].bytes) + " – " + sizeName(decisions[len(decisions)-1].bytes)
	}
	for _, v := range r.Verdicts {
		if v.Cautious.Decisions > 0 && v.LeftOut != fit.LeftOutNodes {
			s.LeftOut, s.Held, s.HeldBest, s.HeldDefault = v.LeftOut, v.VersusDefault, v.Cautious, v.Default
			break
		}
	}
	return s
}

// Tone is the colour of the advice.
func (s *summary) Tone() string {
	switch s.Advice {
	case UseIt:
		return "good"
	case LeaveIt:
		return "none"
	}
	return "open"
}

// Sentence is Why, whose numbers stay with their units on a line.
func (s *summary) Sentence() string {
	return strings.ToUpper(s.Why[:1]) + strings.NewReplacer(" %", "\u00a0%", " - ", "\u00a0–\u00a0").Replace(s.Why[1:]) + "."
}

// Rests says what the verdict rests on.
func (s *summary) Rests() (all []string) {
	if s.NoiseAssumed {
		all = append(all, fmt.Sprintf("Assumed, not measured: that repetitions differ by %s. Too few were made to tell.", percent(s.Noise)))
	} else if s.Noise > 0 {
		all = append(all, fmt.Sprintf("Repetitions differ by %s, as measured.", percent(s.Noise)))
	}
	for _, t := range s.Trials {
		text := fmt.Sprintf("With %s left out of the fit", t.LeftOut)
		if t.LeftOut == s.LeftOut {
			text += fmt.Sprintf(", it saved %s there [%s, %s], and", percent(1-s.Held.Mean), percent(1-s.Held.High), percent(1-s.Held.Low))
		}
		all = append(all, fmt.Sprintf("%s %d of %d decisions were more than 1 %% slower than NCCL’s.", text, t.Harm, t.Decided))
	}
	return all
}

// titleOf names the collectives and the communicators.
func titleOf(report *fit.Report) string {
	var colls, comms []string
	for _, r := range report.Groups {
		k := r.Group.Key
		coll, comm := k.Coll.String(), nccl.CommName(k.Nodes, k.Ranks)
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
