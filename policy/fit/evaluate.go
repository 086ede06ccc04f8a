package fit

import (
	"cmp"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// Evaluation is how a model's decisions for one group compare with measurements.
type Evaluation struct {
	Group   *Group
	Sizes   int
	Verdict Verdict
	Silent  []SilentSizes // most first
}

// SilentSizes counts the sizes at which a model is silent for one reason.
type SilentSizes struct {
	Why   model.Silence
	Sizes int
}

// Outside reports that the model knows nothing of what was measured: not the collective,
// the communicator, or any of the sizes. That it leaves all of that to NCCL is no merit
// of its.
func (e *Evaluation) Outside() bool {
	n := 0
	for _, s := range e.Silent {
		if s.Why.Outside() {
			n += s.Sizes
		}
	}
	return n == e.Sizes
}

// Judged reports whether anything that the model decides could be compared.
func (e *Evaluation) Judged() bool {
	return !e.Outside() && (e.Verdict.Plain.Decisions > 0 || e.Verdict.Cautious.Decisions > 0)
}

// Evaluate asks a model about everything that a set holds.
func Evaluate(m *model.Model, set *Set) []Evaluation {
	var all []Evaluation
	for _, g := range set.Groups {
		view := m.For(g.Nodes, g.Ranks)
		sizes := g.Sizes()
		if len(sizes) == 0 {
			for _, d := range g.Default {
				sizes = append(sizes, d.Bytes)
			}
		}
		outcomes := decide(view, g, sizes)
		e := Evaluation{Group: g, Sizes: len(sizes), Verdict: newVerdict("", outcomes, nil)}
		e.Verdict.judgePredictions(view, g, g.Cells)
		counts := map[model.Silence]int{}
		for _, o := range outcomes {
			if o.Silence != model.Speaks {
				counts[o.Silence]++
			}
		}
		for why, n := range counts {
			e.Silent = append(e.Silent, SilentSizes{why, n})
		}
		slices.SortFunc(e.Silent, func(a, b SilentSizes) int {
			return cmp.Or(cmp.Compare(b.Sizes, a.Sizes), cmp.Compare(a.Why, b.Why))
		})
		all = append(all, e)
	}
	return all
}

// judgePredictions compares predicted with measured times of cells.
func (v *Verdict) judgePredictions(view *model.View, g *Group, cells []Cell) {
	off, inside := compare(view, g, cells)
	v.Predicted, v.Inside = len(off), inside
	if len(off) > 0 {
		v.TypicalError = median(off)
	}
}

// compare returns how far predictions of cells are off, in ln(us), and how many
// measured times are inside the 90 % interval of their prediction.
func compare(view *model.View, g *Group, cells []Cell) (off []float64, inside int) {
	for _, c := range cells {
		mean, sigma, ok := view.Predict(g.Coll, c.Config.Algo, c.Config.Proto, c.Config.Channels, c.Bytes)
		if !ok {
			continue
		}
		d := math.Abs(math.Log(c.Micros) - mean)
		off = append(off, d)
		if d <= quantile95*sigma {
			inside++
		}
	}
	return off, inside
}

// quantile95 of the normal distribution: as many sigmas on either side hold 90 %.
const quantile95 = 1.6449
