package compare

import (
	"math"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
)

// average sets the geometric mean over the sizes of a group. What the first repetitions of all sizes have in common is
// one value, what the second ones have is another. So a run that was slower as a whole counts as one deviation, not as
// one at each size. Where a side has no repetition, the mean has no test.
func (g *Group) average(values []repetitions) {
	var logs []float64
	for _, r := range g.Rows {
		logs = append(logs, math.Log(r.Ratio))
	}
	g.Mean = Mean{Estimate: unknown(stats.Mean(logs)), Sizes: len(logs)}
	if all := rounds(values); min(len(all[0]), len(all[1])) >= 2 {
		both := g.summaries(all)
		for side := range both {
			both[side].variance = max(both[side].variance, leastNoise*leastNoise/float64(len(logs)))
		}
		g.Mean.test = g.test(both[0], both[1])
	}
}

// rounds are the means over sizes of the first repetitions, the second ones and so on, without what sizes differ by.
func rounds(values []repetitions) (all repetitions) {
	middles := make([]float64, len(values))
	for i, v := range values {
		middles[i] = (stats.Mean(v[0]) + stats.Mean(v[1])) / 2
	}
	for side := range all {
		var sums, counts []float64
		for i, v := range values {
			for k, x := range v[side] {
				if k == len(sums) {
					sums, counts = append(sums, 0), append(counts, 0)
				}
				sums[k] += x - middles[i]
				counts[k]++
			}
		}
		for k := range sums {
			all[side] = append(all[side], sums[k]/counts[k])
		}
	}
	return all
}

// overall is the mean over all sizes of all groups, whose errors are taken to be independent.
func overall(groups []Group) Mean {
	var m Mean
	for _, g := range groups {
		m.Sizes += g.Mean.Sizes
	}
	all, known := &tTest{}, len(groups) > 0
	ln, variance, below := 0.0, 0.0, 0.0
	for _, g := range groups {
		weight := float64(g.Mean.Sizes) / float64(m.Sizes)
		ln += weight * math.Log(g.Mean.Ratio)
		if g.Mean.test == nil {
			known = false
			continue
		}
		all.difference += weight * g.Mean.test.difference
		part := weight * weight * g.Mean.test.se * g.Mean.test.se
		variance += part
		below += part * part / g.Mean.test.df
	}
	m.Estimate = unknown(ln)
	if known {
		all.se, all.df = math.Sqrt(variance), variance*variance/below // Welch and Satterthwaite
		m.test = all
	}
	return m
}
