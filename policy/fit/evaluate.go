package fit

import (
	"math"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
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
	Compares  bool                     `json:"-"`        // see Group.Compares
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
		all = append(all, newEvaluation(g, newValidation("", decide(view, g, g.decidedSizes()), off, inside)))
	}
	return all
}

func newEvaluation(g *Group, v Validation) Evaluation {
	e := Evaluation{Key: g.Key, Compares: g.Compares(), Sizes: len(v.Outcomes), Validation: v,
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
		all = append(all, newEvaluation(g, newValidation("", g.decideBy(decide, g.decidedSizes()), nil, 0)))
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
	return known && c.Cell == d.Config.Cell && (c.Channels == 0 || c.Channels == d.Config.Channels)
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
