package fit

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// Evaluation is how a model's decisions for one group compare with measurements. Scores of a group that is Outside are
// of nothing.
type Evaluation struct {
	Key
	Sizes int `json:"sizes"`
	Validation
	Abstained map[model.Abstention]int `json:"abstains"` // sizes by reason, of a model
	Left      int                      `json:"left"`     // sizes at which no row of a policy decides
}

// Outside reports that a model knows nothing of what was measured, not the collective,
// the communicator, or any of the sizes, or that no row of a policy is for any of it.
// To leave all of it to NCCL is no merit then.
func (e *Evaluation) Outside() bool {
	n := e.Left
	for why, sizes := range e.Abstained {
		if why.Outside() {
			n += sizes
		}
	}
	return n == e.Sizes
}

// Judged reports whether anything that the model decides could be compared.
func (e *Evaluation) Judged() bool {
	return e.Plain.Decisions > 0 || e.PolicyScore.Decisions > 0
}

// Evaluate asks a model about everything that a set holds.
func Evaluate(m *model.Model, set *Set) []Evaluation {
	all := []Evaluation{}
	for _, g := range set.Groups {
		view := m.For(g.Comm)
		off, inside := compare(view, g, g.Points)
		all = append(all, newEvaluation(g, newValidation(decide(view, g, g.decidedSizes()), off, inside)))
	}
	return all
}

func newEvaluation(g *Group, v *Validation) Evaluation {
	e := Evaluation{Key: g.Key, Sizes: len(v.Outcomes), Validation: *v,
		Abstained: map[model.Abstention]int{}}
	for _, o := range v.Outcomes {
		if o.Abstention != model.Decides {
			e.Abstained[o.Abstention]++
		}
		if o.NoRow {
			e.Left++
		}
	}
	if e.Outside() {
		e.PolicyScore, e.Plain = Score{}, Score{}
	}
	return e
}

// DecideFunc decides for a communicator; ok is false where it leaves a size to NCCL. The
// channels of what it returns are 0 where it leaves these.
type DecideFunc func(on nccl.Comm, call nccl.Call, costs nccl.Costs) (c nccl.Config, ok bool)

// EvaluateDecisions asks whatever decides for communicators about everything that a set
// holds. What a decision leaves to NCCL is as it was measured of the default, where that
// is known.
func EvaluateDecisions(decide DecideFunc, set *Set) []Evaluation {
	all := []Evaluation{}
	for _, g := range set.Groups {
		all = append(all, newEvaluation(g, newValidation(g.decideBy(decide, g.decidedSizes()), nil, 0)))
	}
	return all
}

// decideBy asks for decisions about sizes.
func (g *Group) decideBy(decide DecideFunc, sizes []uint64) []SizeOutcome {
	return outcomesOf(g, sizes, func(o *SizeOutcome, costs nccl.Costs) (nccl.Config, bool) {
		c, ok := decide(g.Comm, g.call(o.Bytes), costs)
		o.NoRow = !ok
		return c, ok
	})
}

// isDefault reports whether a configuration is NCCL's choice, as far as labels tell.
func (g *Group) isDefault(c nccl.Config, bytes uint64) bool {
	d, known := g.defaultAt(bytes)
	return known && c.Admits(d.Config)
}

// decidedSizes are those at which there is something to decide.
func (g *Group) decidedSizes() []uint64 {
	if sizes := g.Sizes(); len(sizes) > 0 {
		return sizes
	}
	return sizesOf(g.Default)
}

// compare returns how far predictions of points are off, in ln(us), and how many
// measured times are inside the 90 % interval of their prediction.
func compare(view *model.View, g *Group, points []Point) (off []float64, inside int) {
	for _, c := range points {
		t := view.Predict(g.call(c.Bytes), c.Config)
		if t.Unknown() {
			continue
		}
		d := math.Abs(math.Log(c.Micros) - t.LnMicros)
		off = append(off, d)
		if d <= t.Band() {
			inside++
		}
	}
	return off, inside
}

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
	// What was repeated alone tells which is the best: what looks faster was so once, by luck.
	verified := map[uint64]float64{}
	for _, c := range truth.verdicts() {
		switch {
		case c.wins():
			verified[c.best.Bytes] = c.best.Micros
		case c.seen <= 0:
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

// newValidation sums up outcomes. off is how far predictions of left-out times are off, in ln(us).
func newValidation(outcomes []SizeOutcome, off []float64, inside int) *Validation {
	v := &Validation{Outcomes: outcomes, Predicted: len(off), Inside: inside, TypicalError: math.NaN()}
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

// fold is one way to part a group: a model is fitted to train and decides for
// sizes that were measured in truth.
type fold struct {
	train *Group
	sizes []uint64
}

// compile makes models of groups, and compiles them as a tuner would.
func compile(groups ...*Group) *model.Model {
	file := &model.File{Format: model.Format, Version: model.Version}
	for _, g := range groups {
		file.CurveSets = append(file.CurveSets, modelOf(g))
	}
	m, err := model.Compile("model", file)
	if err != nil {
		panic(fmt.Sprintf("fit: a fitted model does not compile: %v", err))
	}
	return m
}

// validate fits each fold and sums up the decisions of the policy file made of it, at sizes left out of the fit.
func validate(truth *Group, folds []fold) *Validation {
	var outcomes []SizeOutcome
	var off []float64
	inside := 0
	for _, f := range folds {
		m := compile(f.train)
		view := m.For(truth.Comm)
		asked := decide(view, truth, f.sizes)
		byRows := truth.decideBy(DecideByRows(Rows(m)), f.sizes)
		for i := range byRows {
			byRows[i].Plain = asked[i].Plain
		}
		outcomes = append(outcomes, byRows...)
		var left []Point
		for _, c := range truth.Points {
			if _, seen := f.train.at(c.Config, c.Bytes); !seen && slices.Contains(f.sizes, c.Bytes) {
				left = append(left, c)
			}
		}
		o, n := compare(view, truth, left)
		off, inside = append(off, o...), inside+n
	}
	return newValidation(outcomes, off, inside)
}

// foldsBySize leaves out every other size, once the odd and once the even ones,
// and decides for those between two that are left. The default is left out, too.
func foldsBySize(g *Group) []fold {
	sizes := g.Sizes()
	if len(sizes) < 5 {
		return nil
	}
	var folds []fold
	for parity := range 2 {
		kept := map[uint64]bool{}
		var test []uint64
		for i, b := range sizes {
			if i%2 == parity {
				kept[b] = true
			} else if i > 0 && i+1 < len(sizes) {
				test = append(test, b)
			}
		}
		keep := func(c Point) bool { return kept[c.Bytes] }
		folds = append(folds, fold{g.subset(keep, keep), test})
	}
	return folds
}

const (
	// luckDraws is how often noise is added to see what it makes of a winner.
	luckDraws = 100
	// hopeless: noise does not lift a point over so many standard deviations.
	hopeless = 12
)

// genuine returns, for each size of Default, the share of the fastest configuration's gain that is not the winner's
// curse: among many alike, the one that noise favoured wins. Noise added to the measured times tells how much that
// flatters.
func (g *Group) genuine() []float64 {
	type rival struct{ ln, noise float64 }
	rng := rand.New(rand.NewPCG(bootstrapSeed, 1))
	points := g.bySize()
	genuine := make([]float64, len(g.Default))
	for i, d := range g.Default {
		best := math.Inf(1)
		for _, c := range points[d.Bytes] {
			best = min(best, c.Micros)
		}
		if math.IsInf(best, 1) {
			continue
		}
		var rivals []rival
		for _, c := range points[d.Bytes] {
			r := rival{math.Log(c.Micros / d.Micros), max(math.Sqrt(g.variance(c)), leastNoise)}
			if r.ln-math.Log(best/d.Micros) < hopeless*max(r.noise, g.Noise) {
				rivals = append(rivals, r)
			}
		}
		defaultNoise := max(math.Sqrt(g.variance(d)), leastNoise)
		promised, kept := 0.0, 0.0
		for range luckDraws {
			least, pick := math.Inf(1), 0.0
			for _, r := range rivals {
				if ln := r.ln + r.noise*rng.NormFloat64(); ln < least {
					least, pick = ln, r.ln
				}
			}
			if least -= defaultNoise * rng.NormFloat64(); least < 0 {
				promised += 1 - math.Exp(least)
				kept += 1 - math.Exp(pick)
			}
		}
		if promised > 0 {
			genuine[i] = min(1, max(0, kept/promised))
		}
	}
	return genuine
}
