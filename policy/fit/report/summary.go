package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit/curves"
)

// summary is one group's line in the table of the first screen. Shares are of the
// default's time; NaN: not known.
type summary struct {
	Name           string
	Index          int
	Configs        int
	Sizes          string
	Acts, Measured int     // sizes with a row of the policy, of those measured
	Gain, Most     float64 // mean over sizes where the default was measured, and the largest; without the winners' luck
	Held           fit.Score
	HeldBest       fit.Score // policy / best, left out
	HeldDefault    fit.Score
	Spoke, Harm    int
	WorstHarm      float64
	Noise          float64
	NoisePairs     int
	Verdict        string
	Tone           string // good, none or open: its colour
}

func newSummary(r *fit.GroupReport, decisions []decision) summary {
	s := summary{Name: r.Group.Key.String(), Configs: len(r.Group.Configs()), Measured: len(decisions), Gain: math.NaN(), Most: math.NaN(), Noise: r.Group.Noise, NoisePairs: r.Group.NoisePairs}
	if len(decisions) > 0 {
		s.Sizes = sizeName(decisions[0].bytes) + " – " + sizeName(decisions[len(decisions)-1].bytes)
	}
	// The measured gain of a winner flatters; the fit knows by how much.
	shrink := 1.0
	if r.MeasuredGain > 0 {
		shrink = r.Gain / r.MeasuredGain
	}
	known, sum := 0, 0.0
	for _, d := range decisions {
		if d.row != nil {
			s.Acts++
		}
		if math.IsNaN(d.byNCCL) {
			continue
		}
		known++
		if !math.IsNaN(d.gain) {
			sum += d.gain * shrink
			s.Most = max(d.gain*shrink, orZero(s.Most))
		}
	}
	if known > 0 && !r.DefaultOnly {
		s.Gain = sum / float64(known)
	}
	for _, v := range r.Verdicts {
		if v.Cautious.Decisions == 0 {
			continue
		}
		if s.Held.Decisions == 0 {
			s.Held, s.HeldBest, s.HeldDefault = v.VersusDefault, v.Cautious, v.Default
		}
		s.Spoke, s.Harm, s.WorstHarm = s.Spoke+v.Spoke, s.Harm+v.Harm, max(s.WorstHarm, v.WorstHarm)
	}
	s.judge(r)
	return s
}

func orZero(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// judge says the whole in a few words.
func (s *summary) judge(r *fit.GroupReport) {
	switch {
	case r.DefaultOnly:
		s.Verdict, s.Tone = "only the default was measured", "open"
	case math.IsNaN(s.Gain) && s.Acts == 0:
		s.Verdict, s.Tone = "measure the default to know", "open"
	case math.IsNaN(s.Gain):
		s.Verdict, s.Tone = "acts, gain unknown: measure the default", "open"
	case s.Acts == 0:
		s.Verdict, s.Tone = "keep NCCL's choice", "none"
	case s.Harm > 0:
		s.Verdict, s.Tone = "with care: slower on some unseen data", "open"
	case s.Held.Decisions == 0:
		s.Verdict, s.Tone = "use it; not tried on unseen data", "open"
	default:
		s.Verdict, s.Tone = "use it", "good"
	}
}

// headline sums up the groups, each counting alike.
type headline struct {
	Groups, Compared int // groups, and those whose default was measured
	Gain, Low, High  float64
	Most             float64
	MostAt           string
	Acts, Measured   int
	Spoke, Harm      int
	WorstHarm        float64
	Regret, Default  float64 // mean of time / best - 1 on unseen data, where both are known
	Held             float64 // mean gain over the default on unseen data, with the interval below
	HeldLow          float64
	HeldHigh         float64
	Validated        int
	NoiseLow         float64
	NoiseHigh        float64
}

func newHeadline(all []summary) headline {
	h := headline{Groups: len(all), Low: math.Inf(1), High: math.Inf(-1), NoiseLow: math.Inf(1)}
	halfWidth := 0.0
	for i := range all {
		all[i].Index = i
		s := all[i]
		h.Acts, h.Measured = h.Acts+s.Acts, h.Measured+s.Measured
		h.Spoke, h.Harm, h.WorstHarm = h.Spoke+s.Spoke, h.Harm+s.Harm, max(h.WorstHarm, s.WorstHarm)
		h.NoiseLow, h.NoiseHigh = min(h.NoiseLow, s.Noise), max(h.NoiseHigh, s.Noise)
		if !math.IsNaN(s.Gain) {
			h.Compared++
			h.Gain += s.Gain
			h.Low, h.High = min(h.Low, s.Gain), max(h.High, s.Gain)
		}
		if s.Most > h.Most { // false for NaN
			h.Most, h.MostAt = s.Most, s.Name
		}
		if s.Held.Decisions > 0 {
			h.Validated++
			h.Held += 1 - s.Held.Mean
			h.Regret += s.HeldBest.Mean - 1
			h.Default += s.HeldDefault.Mean - 1
			// Groups are independent: variances add.
			halfWidth += (s.Held.High - s.Held.Low) * (s.Held.High - s.Held.Low) / 4
		}
	}
	if n := float64(h.Compared); n > 0 {
		h.Gain /= n
	}
	if n := float64(h.Validated); n > 0 {
		h.Held, h.Regret, h.Default = h.Held/n, h.Regret/n, h.Default/n
		h.HeldLow, h.HeldHigh = h.Held-math.Sqrt(halfWidth)/n, h.Held+math.Sqrt(halfWidth)/n
	}
	return h
}

// Change is the size of the gain, whatever its sign.
func (h headline) Change() float64 { return math.Abs(h.Gain) }

// titleOf names the collectives and the communicators.
func titleOf(report *fit.Report) string {
	var colls, comms []string
	for _, r := range report.Groups {
		k := r.Group.Key
		coll, comm := k.Coll.String(), curves.CommName(k)
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
