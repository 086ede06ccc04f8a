package compare

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
)

// summary is what repetitions tell of their location.
type summary struct {
	location float64
	spread
	n float64
}

// spread is the variance of one repetition, with the degrees of freedom that it is known by; 0: not known.
type spread struct{ variance, df float64 }

// From manyReps on, a fifth is left out at either end, and one outlier changes neither the mean nor the variance. Of
// fewer repetitions all count: an outlier may be noise that is large there.
const manyReps, trimmed = 8, 0.2

// summarize takes the mean of a few, the trimmed mean of many with its variance by the winsorized values (Yuen, 1974).
func summarize(values []float64) summary {
	v := slices.Sorted(slices.Values(values))
	n, cut := len(v), 0
	if n >= manyReps {
		cut = int(trimmed * float64(n))
	}
	s := summary{stats.Mean(v[cut : n-cut]), spread{}, float64(n)}
	if n < 2 {
		return s
	}
	for i := range cut {
		v[i], v[n-1-i] = v[cut], v[n-1-cut]
	}
	middle, sum, left := stats.Mean(v), 0.0, float64(n-2*cut)
	for _, x := range v {
		sum += (x - middle) * (x - middle)
	}
	s.spread = spread{sum / (left - 1) * s.n / left, left - 1}
	return s
}

// error2 is the square of the location's standard error.
func (s summary) error2() float64 { return s.variance / s.n }

// tTest is Student's test of a difference of locations, or of the location of differences.
type tTest struct {
	difference, se float64
	df             float64
}

// welch compares two whose noise may differ, with the degrees of freedom of Welch and Satterthwaite.
func welch(a, b summary) *tTest {
	error2 := a.error2() + b.error2()
	below := 0.0
	for _, s := range []summary{a, b} {
		if s.df > 0 {
			below += s.error2() * s.error2() / s.df
		}
	}
	return &tTest{b.location - a.location, math.Sqrt(error2), error2 * error2 / below}
}

// p is two-sided.
func (t *tTest) p() float64 {
	return min(1, 2*distuv.StudentsT{Sigma: 1, Nu: t.df}.Survival(math.Abs(t.difference/t.se)))
}

func (t *tTest) interval(level float64) (low, high float64) {
	half := t.se * distuv.StudentsT{Sigma: 1, Nu: t.df}.Quantile(1-level/2)
	return t.difference - half, t.difference + half
}
