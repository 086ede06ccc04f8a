package fit

import (
	"math"
	"math/rand/v2"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
)

const (
	// luckDraws is how often noise is added to see what it makes of a winner.
	luckDraws = 100
	// hopeless: noise does not lift a point over so many standard deviations.
	hopeless = 12
)

// gain compares the fastest measured configurations with the default, and again
// without the winner's curse: among many alike the one that noise favoured wins.
// Noise added to the measured times tells by how much that flatters. genuine is the share
// of a measured gain that is no such luck, at each size of Default.
func (g *Group) gain() (measured, shrunk float64, genuine []float64) {
	type rival struct{ ln, noise float64 }
	rng := rand.New(rand.NewPCG(bootstrapSeed, 1))
	points := g.bySize()
	var gains []float64
	var rivals []rival
	promised, kept := 0.0, 0.0
	genuine = make([]float64, len(g.Default))
	for i, d := range g.Default {
		best := math.Inf(1)
		for _, c := range points[d.Bytes] {
			best = min(best, c.Micros)
		}
		if math.IsInf(best, 1) {
			continue
		}
		gains = append(gains, max(0, 1-best/d.Micros))
		rivals = rivals[:0]
		for _, c := range points[d.Bytes] {
			if r := (rival{math.Log(c.Micros / d.Micros), g.pointNoise(c)}); r.ln-math.Log(best/d.Micros) <
				hopeless*max(r.noise, g.Noise) {
				rivals = append(rivals, r)
			}
		}
		defaultNoise := g.pointNoise(d)
		promisedBefore, keptBefore := promised, kept
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
		genuine[i] = shareOf(kept-keptBefore, promised-promisedBefore)
	}
	if len(gains) == 0 {
		return math.NaN(), math.NaN(), genuine
	}
	measured = stats.Mean(gains)
	return measured, measured * shareOf(kept, promised), genuine
}

// shareOf is kept/promised within 0 and 1; 0 where nothing was promised.
func shareOf(kept, promised float64) float64 {
	if promised <= 0 {
		return 0
	}
	return min(1, max(0, kept/promised))
}
