package compare

import (
	"cmp"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
)

const (
	// From manyReps on, a fifth is left out at either end, and one outlier changes neither the mean nor the variance.
	// Of fewer repetitions all count: an outlier may be noise that is large there.
	manyReps, trimmed = 8, 0.2
	// leastNoise in ln(us) is what two repetitions differ by even where they look alike: nccl-tests prints few digits.
	leastNoise = 0.002
	// weightOfStarts is what the neighbours' noise counts where few starts have both sides: the median of six sizes'
	// with two degrees of freedom each.
	weightOfStarts = 6
	// neighbours is how many sizes on either side tell of the noise of a size. Fewer in all tell nothing.
	neighbours = 3
)

// parts are what adds up to after less before of a size, in ln(us), from repetitions that are means over so many sizes:
// both sides, or their pairs. There are none where a side has a single repetition: a change looks like a spike there.
func (g *Section) parts(v repetitions, sizes int) []stats.Location {
	switch {
	case min(len(v[0]), len(v[1])) < 2:
		return nil
	case g.Paired:
		return []stats.Location{locate(pairs(v), sizes)}
	}
	return []stats.Location{locate(v[1], sizes), locate(v[0], sizes).Times(-1)}
}

// test is nil where there is no measure of the noise.
func test(parts []stats.Location) *stats.Location {
	if len(parts) == 0 {
		return nil
	}
	sum := stats.Sum(parts...)
	return &sum
}

// moderate averages the variance of each size with the median of its neighbours', which counts as one more degree of
// freedom. Few repetitions tell a variance badly: now and then three of them agree by chance. This is Smyth's moderated
// variance (2004), with a median so that one noisy size does not count, and of neighbours because noise can grow with
// the size: from 0.3 % at 128 KiB to 4.5 % at 32 MiB on one machine. A size that is noisy itself keeps most of its
// noise. weight is how many degrees of freedom the neighbours count as.
func moderate(sizes [][]stats.Location, weight float64) {
	for part := range 2 {
		var all []*stats.Location
		var noise []float64 // the variance of one repetition
		for _, parts := range sizes {
			if part < len(parts) {
				l := &parts[part]
				all, noise = append(all, l), append(noise, l.Variance*(l.DF+1)/medianChi2(l.DF))
			}
		}
		for k, l := range all {
			near := slices.Concat(noise[max(0, k-neighbours):k], noise[k+1:min(k+1+neighbours, len(noise))])
			if len(near) >= neighbours {
				l.Variance = (l.DF*l.Variance + weight*stats.Median(near)/(l.DF+1)) / (l.DF + weight)
				l.DF += weight
			}
		}
	}
}

// medianChi2 is the median of a chi-squared variable over its degrees of freedom (Wilson and Hilferty, 1931).
func medianChi2(df float64) float64 {
	root := 1 - 2/(9*df)
	return root * root * root
}

func locate(values []float64, sizes int) stats.Location {
	cut := 0
	if len(values) >= manyReps {
		cut = int(trimmed * float64(len(values)))
	}
	l := stats.Trimmed(values, cut)
	l.Variance = max(l.Variance, leastNoise*leastNoise/float64(sizes*len(values)))
	return l
}

func pairs(v repetitions) (all []float64) {
	for i, before := range v[0] {
		all = append(all, v[1][i]-before)
	}
	return all
}

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

// alpha is the share of the verdicts of a table that may be wrong.
const alpha = 0.05

// judge gives all ratios of a table their probability, interval and verdict.
//
// Of 20 sizes at which nothing changed, one would be called different at 5 %. Proven is what Benjamini and Hochberg
// (1995) leave: of the verdicts of a table, a share of alpha is expected to be wrong, and where nothing changed at all,
// one table in 1/alpha has a verdict. An interval is that of its ratio alone: without a verdict it may leave out 1.
func judge(all []*Estimate) (tested int) {
	known := slices.DeleteFunc(slices.Clone(all), func(e *Estimate) bool { return e.test == nil })
	m := float64(len(known))
	for _, e := range known {
		e.P = stats.Optional(e.test.P())
	}
	slices.SortStableFunc(known, func(a, b *Estimate) int { return cmp.Compare(a.P, b.P) })
	proven := 0
	for i, e := range known {
		if float64(e.P) <= alpha*float64(i+1)/m {
			proven = i + 1
		}
	}
	least := stats.Optional(1)
	for i, e := range slices.Backward(known) {
		half := e.test.Half()
		// The test is about means, the ratio is of medians: where they disagree, both count.
		e.Low = stats.Optional(min(math.Exp(e.test.Mean-half), e.Ratio))
		e.High = stats.Optional(max(math.Exp(e.test.Mean+half), e.Ratio))
		least = min(least, e.P*stats.Optional(m)/stats.Optional(i+1))
		e.P = least
		switch {
		case i < proven && e.High < 1:
			e.Verdict = Faster
		case i < proven && e.Low > 1:
			e.Verdict = Slower
		default:
			e.Verdict = Unproven
		}
	}
	return len(known)
}
