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
	Algo            nccl.Algo
	Proto           nccl.Proto
	Channels        int     // 0: NCCL's own count
	LnMicros, Sigma float64 // NaN where the model knows none at the size
	Bar             Bar
	Floored         bool // see Curve
}

// Micros is the expected time; NaN where the model knows none.
func (c Candidate) Micros() float64 { return math.Exp(c.LnMicros) }

// Candidates lists what Choose chooses from, the fastest first, then what may not be chosen. It is
// empty where the model says nothing of the collective or the size.
func (v *View) Candidates(coll nccl.Coll, bytes uint64, costs nccl.Costs) []Candidate {
	g, at, _ := v.find(coll, bytes)
	if g == nil {
		return nil
	}
	noRing := costs.RingIsGuarded()
	all := make([]Candidate, len(g.curves))
	for i := range g.curves {
		c := &g.curves[i]
		mean, sigma := at.in(c.lnTable)
		bar := v.offer(coll, c, &costs, noRing)
		switch {
		case bar != BarNone:
		case math.IsNaN(mean):
			bar = BarUnknown
		default:
			bar = c.trust(bytes)
		}
		all[i] = Candidate{c.algo, c.proto, c.channels, mean, sigma, bar, c.floored}
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
	g, at, _ := v.find(coll, bytes)
	if g == nil {
		return NoChoice, false
	}
	c := g.curve(algo, proto, channels)
	if c == nil || c.trust(bytes) != BarNone {
		return NoChoice, false
	}
	choice = Choice{Algo: algo, Proto: proto, Channels: channels}
	choice.LnMicros, choice.Sigma = at.in(c.lnTable)
	def, _, ok := v.defaultTime(g, at, costs, c)
	choice.DefaultLnMicros, choice.DefaultSigma = def.mean, def.sigma
	choice.Needed = choice.needed() + v.farther[coll]
	return choice, ok && choice.Sigma > 0
}
