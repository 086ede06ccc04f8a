package compare

import (
	"math"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
)

// average sets the geometric mean over the sizes of a group. Where all was repeated, what the first repetitions of
// all sizes have in common is one value, the second ones another: so a run that was slower as a whole counts as one
// deviation and not as one at each size. Else the ratios of the sizes are the values.
func (g *Group) average(values []repetitions) {
	// the latter of means: where outliers lie above, the median of many is below a single time
	var logs, differences []float64
	for i, r := range g.Rows {
		logs = append(logs, math.Log(r.Ratio))
		differences = append(differences, stats.Mean(values[i][1])-stats.Mean(values[i][0]))
	}
	n := float64(len(logs))
	g.Mean = Mean{Estimate: unknown(stats.Mean(logs)), Sizes: len(logs)}
	all := rounds(values)
	both := g.summaries(all)
	floor := leastNoise * leastNoise / n
	switch known := both[0].pooled(both[1].spread); {
	case min(len(all[0]), len(all[1])) >= 2:
		g.Mean.test = g.testAtLeast(both, floor)
	case known.df > 0: // the noise of the side that was repeated is taken for both
		error2 := max(known.variance, floor) * (1/both[0].n + 1/both[1].n)
		g.Mean.test = &tTest{both[1].location - both[0].location, math.Sqrt(error2), known.df}
	case len(logs) >= leastNeighbours:
		s := summarize(differences)
		g.Mean.test = &tTest{s.location, math.Sqrt(max(s.variance, leastNoise*leastNoise) / n), s.df}
		g.Mean.BySizes = true
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
		m.BySizes = m.BySizes || g.Mean.BySizes
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
