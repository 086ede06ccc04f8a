package compare

import (
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
// noise.
func moderate(sizes [][]stats.Location) {
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
				l.Variance = (l.DF*l.Variance + stats.Median(near)/(l.DF+1)) / (l.DF + 1)
				l.DF++
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
