package fit

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// Score sums up ratios of times.
type Score = model.Score

const (
	resamples     = 1000
	bootstrapSeed = 20240229
)

// newScore sums up ratios, without those that are NaN.
func newScore(ratios []float64) Score {
	v := slices.DeleteFunc(slices.Clone(ratios), math.IsNaN)
	if len(v) == 0 {
		return Score{}
	}
	s := Score{Decisions: len(v), Mean: stats.Mean(v), P95: stats.Quantile(v, 0.95), Max: slices.Max(v)}
	rng := rand.New(rand.NewPCG(bootstrapSeed, uint64(len(v))))
	means := make([]float64, resamples)
	for i := range means {
		sum := 0.0
		for range v {
			sum += v[rng.IntN(len(v))]
		}
		means[i] = sum / float64(len(v))
	}
	s.Low, s.High = stats.Quantile(means, 0.05), stats.Quantile(means, 0.95)
	return s
}

// SizeOutcome is what came of deciding for one size. Times are measured ones, in
// microseconds; NaN where what was decided was not measured.
type SizeOutcome struct {
	Bytes   uint64
	Best    float64 // the least measured, of any configuration or the default; NaN: of fewer than two, or not sure
	Default float64
	Plain   float64 // of the configuration with the least predicted time
	Policy  float64 // of the policy: the default where it abstains
	Decides bool    // the policy decides

	Abstention model.Abstention // of a model
	NoRow      bool             // of a policy decides
}

// decide asks a model about sizes of a group that was measured.
func decide(view *model.View, truth *Group, sizes []uint64) []SizeOutcome {
	return outcomesOf(truth, sizes, func(o *SizeOutcome, costs nccl.Costs) (c nccl.Config, ok bool) {
		call := truth.call(o.Bytes)
		o.Plain = truth.timeOf(view.Fastest(call, costs).Config, o.Bytes)
		choice, why := view.Choose(call, costs)
		o.Abstention = why
		return choice.Config, why == model.Decides
	})
}

func (g *Group) call(bytes uint64) nccl.Call { return nccl.Call{Coll: g.Coll, Bytes: bytes} }

// outcomesOf asks for a configuration at each size; ok is false where the size is left to
// the library. NCCL's cost table is made up from what was measured.
func outcomesOf(truth *Group, sizes []uint64,
	choose func(o *SizeOutcome, costs nccl.Costs) (c nccl.Config, ok bool)) []SizeOutcome {
	bySize := truth.bySize()
	// What was verified alone tells which is the best: what looks faster was so once, by luck.
	verified := map[uint64]float64{}
	for _, c := range truth.contests() {
		switch {
		case c.wins():
			verified[c.best.Bytes] = c.best.Micros
		case c.gain <= 0:
			verified[c.best.Bytes] = c.byDefault.Micros
		default:
			verified[c.best.Bytes] = math.NaN()
		}
	}
	outcomes := make([]SizeOutcome, 0, len(sizes))
	for _, b := range sizes {
		o := SizeOutcome{Bytes: b, Best: math.NaN(), Default: math.NaN(), Plain: math.NaN(), Policy: math.NaN()}
		measured := bySize[b]
		if d, ok := truth.defaultAt(b); ok {
			o.Default = d.Micros
			measured = append(slices.Clip(measured), d)
		}
		if len(measured) > 1 {
			o.Best = slices.MinFunc(measured, func(a, b Point) int { return cmp.Compare(a.Micros, b.Micros) }).Micros
		}
		if best, ok := verified[b]; ok {
			o.Best = best
		}
		o.Policy = o.Default
		// A decision for NCCL's choice changes nothing, and takes as long as it did.
		if config, ok := choose(&o, costsAt(truth, bySize[b], b)); ok && !truth.isDefault(config, b) {
			o.Decides, o.Policy = true, truth.timeOf(config, b)
		}
		outcomes = append(outcomes, o)
	}
	return outcomes
}

func (g *Group) bySize() map[uint64][]Point {
	m := map[uint64][]Point{}
	for _, c := range g.Points {
		m[c.Bytes] = append(m[c.Bytes], c)
	}
	return m
}

// timeOf is what a configuration took; NaN if that was not measured.
func (g *Group) timeOf(config nccl.Config, bytes uint64) float64 {
	c, ok := g.at(config, bytes)
	if n := g.own[place{config.Cell, bytes}]; !ok && config.Channels == 0 && n > 0 {
		c, ok = g.at(nccl.Config{Cell: config.Cell, Channels: n}, bytes)
	}
	if !ok {
		return math.NaN()
	}
	return c.Micros
}

// costsAt is a cost table as NCCL would hand it over: what was measured at a size is
// available, and NCCL's choice is the cheapest.
func costsAt(g *Group, points []Point, bytes uint64) nccl.Costs {
	costs := nccl.Everything()
	for i := range costs.Micros {
		costs.Micros[i] = -1
	}
	for _, c := range points {
		costs.Micros[costs.Index(c.Config.Cell)] = 2
	}
	if d, ok := g.defaultAt(bytes); ok && d.Config.Known() {
		costs.Micros[costs.Index(d.Config.Cell)] = 1
		costs.AvailableOnly = false
	}
	return costs
}

// Validation sums up outcomes of a policy.
type Validation struct {
	LeftOut string `json:"-"` // what the model had not seen

	// Against the best measured, of nothing where that is not known; Default at the sizes where the policy is known, so
	// that the two compare.
	PolicyScore   Score `json:"policy,omitzero"`
	Plain         Score `json:"plain,omitzero"`
	Default       Score `json:"default,omitzero"`
	VersusDefault Score `json:"-"` // policy / default

	// Harm is how many of Decided decisions were more than 1 % slower than the
	// default; WorstHarm the largest ratio to it. A decision for what was not
	// measured is in neither: it is one of Unmeasured.
	Decided    int     `json:"decided"`
	Unmeasured int     `json:"unmeasured"`
	Harm       int     `json:"slower_than_default"`
	WorstHarm  float64 `json:"worst_vs_default"`

	Outcomes []SizeOutcome `json:"-"` // ascending sizes

	Predicted    int     `json:"predicted"` // left-out times
	Inside       int     `json:"inside_90"` // how many of them are within the 90 % interval
	TypicalError float64 `json:"-"`         // median of |ln(predicted/measured)|; NaN without predictions
}

const harmful = 1.01

// newValidation sums up outcomes. off is how far predictions of left-out times are off, in ln(us).
func newValidation(leftOut string, outcomes []SizeOutcome, off []float64, inside int) Validation {
	v := Validation{LeftOut: leftOut, Outcomes: outcomes, Predicted: len(off), Inside: inside, TypicalError: math.NaN()}
	if len(off) > 0 {
		v.TypicalError = stats.Median(off)
	}
	ratios := func(f func(o *SizeOutcome) float64) Score {
		var r []float64
		for i := range outcomes {
			r = append(r, f(&outcomes[i]))
		}
		return newScore(r)
	}
	v.Plain = ratios(func(o *SizeOutcome) float64 { return o.Plain / o.Best })
	v.PolicyScore = ratios(func(o *SizeOutcome) float64 { return o.Policy / o.Best })
	v.Default = ratios(func(o *SizeOutcome) float64 {
		if math.IsNaN(o.Policy) {
			return math.NaN()
		}
		return o.Default / o.Best
	})
	v.VersusDefault = ratios(func(o *SizeOutcome) float64 { return o.Policy / o.Default })
	for _, o := range outcomes {
		switch r := o.Policy / o.Default; {
		case !o.Decides:
		case math.IsNaN(r):
			v.Unmeasured++
		default:
			v.Decided++
			if r > harmful {
				v.Harm++
			}
			v.WorstHarm = max(v.WorstHarm, r)
		}
	}
	slices.SortStableFunc(outcomes, func(a, b SizeOutcome) int { return cmp.Compare(a.Bytes, b.Bytes) })
	return v
}
