package fit

import (
	"math"
	"math/rand/v2"
)

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
			r := rival{math.Log(c.Micros / d.Micros), g.pointNoise(c)}
			if r.ln-math.Log(best/d.Micros) < hopeless*max(r.noise, g.Noise) {
				rivals = append(rivals, r)
			}
		}
		defaultNoise := g.pointNoise(d)
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
