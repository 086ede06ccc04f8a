package model

import (
	"cmp"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Candidate is a configuration that a model knows, and what keeps it from being chosen, if anything
// does.
type Candidate struct {
	nccl.Config
	Time
	Bar     Bar
	Floored bool // see Curve
}

// Candidates lists what Choose chooses from, the fastest first, then what may not be chosen. It is empty if
// the model does not know the collective or the size.
func (v *View) Candidates(call nccl.Call, costs nccl.Costs) []Candidate {
	g, octave, _ := v.find(call)
	if g == nil {
		return nil
	}
	noRing := costs.RingIsGuarded()
	all := make([]Candidate, len(g.curves))
	for i := range g.curves {
		c := &g.curves[i]
		bar := v.offer(call.Coll, c, &costs, noRing)
		all[i] = Candidate{Config: c.Config, Time: c.at(octave), Bar: bar, Floored: c.floored}
		if all[i].Bar == BarNone && all[i].Unknown() {
			all[i].Bar = BarSize
		}
	}
	slices.SortFunc(all, func(a, b Candidate) int {
		barred := func(c Candidate) int { return min(int(c.Bar), 1) }
		return cmp.Or(barred(a)-barred(b), cmp.Compare(unknownLast(a.LnMicros), unknownLast(b.LnMicros)),
			a.Compare(b.Config))
	})
	return all
}

func unknownLast(ln float64) float64 {
	if math.IsNaN(ln) {
		return math.Inf(1)
	}
	return ln
}

// Expect returns what the model expects of a configuration and of NCCL's choice. ok is false if it does not
// know one of both at this size.
func (v *View) Expect(call nccl.Call, costs nccl.Costs, config nccl.Config) (choice Choice, ok bool) {
	choice = Choice{Config: config, Time: v.Predict(call, config)}
	if choice.Unknown() {
		return NoChoice, false
	}
	choice.Default, _ = v.groups[call.Coll].defaultTime(call.Bytes, costs, config)
	choice.Needed = choice.needed() + v.farther[call.Coll]
	return choice, !choice.Default.Unknown()
}
