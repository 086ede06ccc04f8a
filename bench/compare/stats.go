package compare

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// median of values, which it leaves in their order.
func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	if n == 0 {
		return math.NaN()
	}
	return (v[(n-1)/2] + v[n/2]) / 2
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// spread is the variance of one repetition, with the degrees of freedom that it is known by; 0: not known.
type spread struct{ variance, df float64 }

// spreadOf is the spread of repetitions around their mean.
func spreadOf(values []float64) spread {
	if len(values) < 2 {
		return spread{}
	}
	m, sum := mean(values), 0.0
	for _, v := range values {
		sum += (v - m) * (v - m)
	}
	n := float64(len(values))
	return spread{sum / (n - 1), n - 1}
}

// pooled is the common spread of both.
func (s spread) pooled(o spread) spread {
	df := s.df + o.df
	if df == 0 {
		return spread{}
	}
	return spread{(s.variance*s.df + o.variance*o.df) / df, df}
}

// tTest is Student's test of a difference of means, or of a mean of differences.
type tTest struct {
	difference, se float64
	df             float64
}

func (t *tTest) p() float64 {
	return min(1, 2*distuv.StudentsT{Sigma: 1, Nu: t.df}.Survival(math.Abs(t.difference/t.se)))
}

func (t *tTest) interval(level float64) (low, high float64) {
	half := t.se * distuv.StudentsT{Sigma: 1, Nu: t.df}.Quantile(1-level/2)
	return t.difference - half, t.difference + half
}
