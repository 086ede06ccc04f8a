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
	// neighbours is how many sizes on either side tell of the noise of a size. Fewer in all tell nothing.
	neighbours = 3
	// weightOfStarts is what the noise of all sizes counts, in degrees of freedom, where both sides share their starts.
	// There it is the noise of what starts draw for each size by itself. Else starts may be slower as a whole, of which
	// many sizes tell no more than one.
	weightOfStarts = 8
)

// estimate fills in the median, the ratio and the test of each size, and the geometric mean over them.
func (g *Section) estimate(values [][2]repeated) {
	for i, v := range values {
		r := &g.Rows[i]
		var ln [2]float64
		for side, cell := range []*Measured{&r.Before, &r.After} {
			all := v[side].repetitions()
			ln[side], cell.Reps = stats.Median(all), len(all)
		}
		if g.InStarts { // a few pairs that were disturbed do not count
			ln[1] = ln[0] + stats.Median(g.pairs(v).repetitions())
		}
		for side, cell := range []*Measured{&r.Before, &r.After} {
			cell.Micros = math.Exp(ln[side])
			cell.BusBW /= cell.Micros
		}
		r.Estimate = unknown(math.Log(r.After.Micros / r.Before.Micros))
	}
	var logs []float64
	for _, r := range g.Rows {
		logs = append(logs, math.Log(r.Ratio))
	}
	g.Mean = Mean{Estimate: unknown(stats.Mean(logs)), Sizes: len(logs)}
	parts := [][]repeated{nil, nil}
	for _, v := range values {
		parts[0], parts[1] = append(parts[0], v[1]), append(parts[1], v[0])
	}
	if g.Paired {
		parts = [][]repeated{nil}
		for _, v := range values {
			parts[0] = append(parts[0], g.pairs(v))
		}
	}
	for k, part := range parts {
		sign := 1 - 2*float64(k)
		for i, l := range g.locate(part) {
			g.Rows[i].add(k, l, sign)
		}
		g.Mean.add(k, rounds(part), sign)
	}
}

// add adds to the test of a ratio the k-th part of after less before; where one is not known, there is none.
func (e *Estimate) add(k int, l *stats.Location, sign float64) {
	switch {
	case l == nil:
		e.test = nil
	case k == 0:
		e.test = l
	case e.test != nil:
		sum := stats.Sum(*e.test, l.Times(sign))
		e.test = &sum
	}
}

// pairs are after less before: of the passes of each start, or of starts made in turns.
func (g *Section) pairs(v [2]repeated) (all repeated) {
	for k, before := range v[0] {
		after, of := v[1][k], times{run: before.run}
		if g.InStarts {
			for i, x := range after.ln {
				of.ln = append(of.ln, x-before.ln[i])
			}
		} else {
			of.ln = []float64{stats.Middle(after.ln) - stats.Middle(before.ln)}
		}
		all = append(all, of)
	}
	return all
}

// locate returns where the times of each size lie, nil for a size that is not repeated: a change looks like a spike
// there.
//
// Few repetitions tell a variance badly: now and then three of them agree by chance. So the variance of each size is
// averaged with what other sizes tell of it. This is Smyth's moderated variance (2004), with a median so that one noisy
// size does not count. A size that is noisy itself keeps most of its noise.
//
// Where starts have several passes, a mean over n times of m starts has the variance between / m + within / n. The
// sizes next to it tell within, and all sizes tell between. Else the sizes next to it tell the sum, because noise can
// grow with the size: from 0.3 % at 128 KiB to 4.5 % at 32 MiB on one machine.
func (g *Section) locate(sizes []repeated) []*stats.Location {
	all := make([]*stats.Location, len(sizes))
	var at []int
	var noise, within, between []float64 // the variance of one repetition, and of what it consists
	for i, s := range sizes {
		values := s.repetitions()
		if len(values) < 2 {
			continue
		}
		l := located(values, 1)
		all[i], at = &l, append(at, i)
		noise, within = append(noise, l.Variance*(l.DF+1)/medianChi2(l.DF)), append(within, s.within())
		between = append(between, noise[len(at)-1]-within[len(at)-1])
	}
	drawn := max(0, stats.Median(between))
	for k, i := range at {
		l, weight, tells := all[i], 0.0, 0.0
		from, to := max(0, k-neighbours), min(k+1+neighbours, len(at))
		switch near := slices.Concat(noise[from:k], noise[k+1:to]); {
		case within[k] > 0:
			weight, tells = 1, drawn+(within[k]+stats.Median(within[from:to]))/2
			if g.InStarts {
				weight = min(weightOfStarts, 0.5*l.DF*float64(len(at)-1)) // a median is worth less than a mean
			}
		case len(near) >= neighbours:
			weight, tells = 1, stats.Median(near)
		}
		l.Variance = max((l.DF*l.Variance+weight*tells/(l.DF+1))/(l.DF+weight), within[k]/(l.DF+1))
		if l.DF += weight; len(sizes[i]) == 1 {
			unseen(l)
		}
	}
	return all
}

// within is the variance of a start's middle that its times tell; 0: starts have one time each, or there is only one.
func (s repeated) within() float64 {
	var off []float64
	n := 0
	for _, of := range s {
		off, n = append(off, stats.Deviations(of.ln, stats.Middle(of.ln))...), n+len(of.ln)
	}
	if len(s) < 2 || len(off) == 0 {
		return 0
	}
	sigma := stats.Sigma(off)
	return stats.Nested{Within: sigma * sigma}.OfMean(1, float64(n)/float64(len(s)))
}

// unseen adds what another start might have drawn.
func unseen(l *stats.Location) {
	*l = stats.Sum(*l, stats.Location{Variance: stats.QuietNoise * stats.QuietNoise, DF: math.Inf(1)})
}

// medianChi2 is the median of a chi-squared variable over its degrees of freedom (Wilson and Hilferty, 1931).
func medianChi2(df float64) float64 {
	root := 1 - 2/(9*df)
	return root * root * root
}

// located is where repetitions lie that are means over so many sizes.
func located(values []float64, sizes int) stats.Location {
	cut := 0
	if len(values) >= manyReps {
		cut = int(trimmed * float64(len(values)))
	}
	l := stats.Trimmed(values, cut)
	l.Variance = max(l.Variance, leastNoise*leastNoise/float64(sizes*len(values)))
	return l
}

// rounds is where the mean over sizes lies. What the first repetitions of all sizes have in common is one value, what
// the second ones have is another. So a run that was slower as a whole counts as one deviation, not as one at each
// size. It is nil where nothing is repeated.
func rounds(sizes []repeated) *stats.Location {
	var sums, counts []float64
	offset, starts := 0.0, 0
	for _, s := range sizes {
		starts = max(starts, len(s))
	}
	for _, s := range sizes {
		values := s.repetitions()
		middle := stats.Mean(values)
		offset += middle / float64(len(sizes))
		if len(s) == 1 && starts > 1 {
			continue // its passes are no starts
		}
		for k, x := range values {
			if k == len(sums) {
				sums, counts = append(sums, 0), append(counts, 0)
			}
			sums[k] += x - middle
			counts[k]++
		}
	}
	if len(sums) < 2 {
		return nil
	}
	for k := range sums {
		sums[k] = sums[k]/counts[k] + offset
	}
	l := located(sums, len(sizes))
	if starts == 1 {
		unseen(&l)
	}
	return &l
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

// Alpha is the share of the verdicts of a table that may be wrong.
const Alpha = 0.05

// judge gives all ratios of a table their probability, interval and verdict.
//
// Of 20 sizes at which nothing changed, one would be called different at 5 %. Proven is what Benjamini and Hochberg
// (1995) leave: of the verdicts of a table, a share of Alpha is expected to be wrong, and where nothing changed at all,
// one table in 1/Alpha has a verdict. An interval is that of its ratio alone: without a verdict it may leave out 1.
func judge(all []*Estimate) (tested int) {
	known := slices.DeleteFunc(slices.Clone(all), func(e *Estimate) bool { return e.test == nil })
	m := float64(len(known))
	for _, e := range known {
		e.P = stats.Optional(e.test.P())
	}
	slices.SortStableFunc(known, func(a, b *Estimate) int { return cmp.Compare(a.P, b.P) })
	proven := 0
	for i, e := range known {
		if float64(e.P) <= Alpha*float64(i+1)/m {
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
