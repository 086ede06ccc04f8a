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
	LnMicros, Sigma float64 // NaN where the model knows none at the size
	Bar             Bar
	Floored         bool // see Curve
}

// Micros is the expected time; NaN where the model knows none.
func (c Candidate) Micros() float64 { return math.Exp(c.LnMicros) }

// Candidates lists what Choose chooses from, the fastest first, then what may not be chosen. It is
// empty where the model says nothing of the collective or the size.
func (v *View) Candidates(coll nccl.Coll, bytes uint64, costs nccl.Costs) []Candidate {
	g, octave, _ := v.find(coll, bytes)
	if g == nil {
		return nil
	}
	noRing := costs.RingIsGuarded()
	all := make([]Candidate, len(g.curves))
	for i := range g.curves {
		c := &g.curves[i]
		ln, sigma := c.at(octave)
		bar := v.offer(coll, c, &costs, noRing)
		if bar == BarNone && math.IsNaN(ln) {
			bar = BarSize
		}
		all[i] = Candidate{Config: c.Config, LnMicros: ln, Sigma: sigma, Bar: bar, Floored: c.floored}
	}
	slices.SortFunc(all, func(a, b Candidate) int {
		barred := func(c Candidate) int { return min(int(c.Bar), 1) }
		return cmp.Or(barred(a)-barred(b), cmp.Compare(unknownLast(a.LnMicros), unknownLast(b.LnMicros)),
			cmp.Compare(a.Algo, b.Algo), cmp.Compare(a.Proto, b.Proto), cmp.Compare(a.Channels, b.Channels))
	})
	return all
}

func unknownLast(ln float64) float64 {
	if math.IsNaN(ln) {
		return math.Inf(1)
	}
	return ln
}

// Expect returns what the model expects of a configuration beside what NCCL would do. ok is false
// where it does not know one of both at this size from measurements.
func (v *View) Expect(coll nccl.Coll, bytes uint64, costs nccl.Costs, algo nccl.Algo, proto nccl.Proto, channels int) (choice Choice, ok bool) {
	choice = Choice{Config: nccl.Config{Cell: nccl.Cell{Algo: algo, Proto: proto}, Channels: channels}}
	if choice.LnMicros, choice.Sigma, ok = v.Predict(coll, algo, proto, channels, bytes); !ok {
		return NoChoice, false
	}
	g := v.groups[coll]
	choice.DefaultLnMicros, choice.DefaultSigma, _, ok = v.defaultTime(g, bytes, costs, g.curve(algo, proto, channels))
	choice.Needed = choice.needed() + v.farther[coll]
	return choice, ok
}
