package compare

import (
	"math"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
)

// average sets the geometric mean over the sizes of a section. What the first repetitions of all sizes have in common
// is one value, what the second ones have is another. So a run that was slower as a whole counts as one deviation, not
// as one at each size. Where a side has no repetition, the mean has no test.
func (g *Section) average(values []repetitions) {
	var logs []float64
	for _, r := range g.Rows {
		logs = append(logs, math.Log(r.Ratio))
	}
	g.Mean = Mean{Estimate: unknown(stats.Mean(logs)), Sizes: len(logs)}
	g.Mean.test = test(g.parts(rounds(values), len(logs)))
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

// overall is the mean over all sizes of all sections, whose errors are taken to be independent.
func overall(sections []Section) Mean {
	var m Mean
	for _, g := range sections {
		m.Sizes += g.Mean.Sizes
	}
	ln := 0.0
	var tests []stats.Location
	for _, g := range sections {
		weight := float64(g.Mean.Sizes) / float64(m.Sizes)
		ln += weight * math.Log(g.Mean.Ratio)
		if g.Mean.test != nil {
			tests = append(tests, g.Mean.test.Times(weight))
		}
	}
	m.Estimate = unknown(ln)
	if len(sections) > 0 && len(tests) == len(sections) {
		all := stats.Sum(tests...)
		m.test = &all
	}
	return m
}
