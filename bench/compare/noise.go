package compare

import (
	"cmp"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
)

const (
	// noiseOctaves is how far repetitions of other sizes count on either side of a size. Noise grows with the size on
	// some machines: from 0.3 % at 128 KiB to 4.5 % at 32 MiB on one that was measured.
	noiseOctaves = 1
	// fewNeighbours: the nearest ones count even if they are farther away, and fewer tell nothing.
	fewNeighbours, leastNeighbours = 5, 3
	// priorDF is the weight of the neighbours: that of one more repetition of the size itself. In a simulation of
	// 3 and 3 repetitions, with every fifth size 5 times as noisy as the others, 3 % of the tables had a wrong
	// verdict (with 2: 8 %), and of changes of 5 % at 1 % of noise 94 % were found (98 %).
	priorDF = 1
	// leastNoise in ln(us) is what two repetitions differ by even where they look alike: nccl-tests prints few digits.
	leastNoise = 0.002
)

// moderate replaces the spread of each size by one that also knows of its neighbours. Few repetitions tell a variance
// badly: now and then three of them agree by chance. The weighted mean of a size's own variance with that of its
// neighbours is Smyth's moderated variance (2004), here with the median over neighbours so that one outlier does not
// count. A size that is noisy itself keeps most of its noise.
func moderate(octaves []float64, own []summary) (all []spread) {
	type neighbour struct {
		away float64
		spread
	}
	for k := range own {
		var near []neighbour
		for j := range own {
			if j != k && own[j].df > 0 {
				near = append(near, neighbour{math.Abs(octaves[j] - octaves[k]), own[j].spread})
			}
		}
		slices.SortStableFunc(near, func(a, b neighbour) int { return cmp.Compare(a.away, b.away) })
		for len(near) > fewNeighbours && near[len(near)-1].away > noiseOctaves {
			near = near[:len(near)-1]
		}
		s := own[k].spread
		if len(near) >= leastNeighbours {
			var variances []float64
			df := 0.0
			for _, n := range near {
				variances = append(variances, n.variance/medianChi2(n.df))
				df += n.df
			}
			s = s.pooled(spread{stats.Median(variances), min(priorDF, df/2)})
		}
		s.variance = max(s.variance, leastNoise*leastNoise)
		all = append(all, s)
	}
	return all
}

// pooled is the common spread of both.
func (s spread) pooled(o spread) spread {
	df := s.df + o.df
	if df == 0 {
		return s
	}
	return spread{(s.variance*s.df + o.variance*o.df) / df, df}
}

// medianChi2 is the median of a chi-squared variable over its degrees of freedom (Wilson and Hilferty, 1931).
func medianChi2(df float64) float64 {
	root := 1 - 2/(9*df)
	return root * root * root
}
