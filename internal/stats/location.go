package stats

import (
	"math"
	"slices"
)

// Location is where values lie: an estimate, its variance (the square of its standard error), and the degrees of
// freedom that the variance is known by.
type Location struct{ Mean, Variance, DF float64 }

// Trimmed is the mean without the cut smallest and the cut largest values. For its variance these are set to the last
// ones kept (Yuen, 1974). One value kept tells no variance.
func Trimmed(values []float64, cut int) Location {
	v := slices.Sorted(slices.Values(values))
	kept := v[cut : len(v)-cut]
	l := Location{Mean: Mean(kept), DF: float64(len(kept) - 1)}
	for i := range cut {
		v[i], v[len(v)-1-i] = kept[0], kept[len(kept)-1]
	}
	middle := Mean(v)
	for _, x := range v {
		l.Variance += (x - middle) * (x - middle)
	}
	l.Variance /= l.DF * float64(len(kept))
	return l
}

// Times is a multiple of the location.
func (l Location) Times(factor float64) Location {
	return Location{factor * l.Mean, factor * factor * l.Variance, l.DF}
}

// Sum adds independent locations whose noise may differ (Welch and Satterthwaite).
func Sum(all ...Location) (sum Location) {
	below := 0.0
	for _, l := range all {
		sum.Mean += l.Mean
		sum.Variance += l.Variance
		below += l.Variance * l.Variance / l.DF
	}
	sum.DF = sum.Variance * sum.Variance / below
	return sum
}

// P is the probability that chance puts the mean so far from 0 on either side, by Student's t.
func (l Location) P() float64 { return beyond(math.Abs(l.Mean)/math.Sqrt(l.Variance), l.DF) }

// Half is half the width of the 95 % interval of the mean.
func (l Location) Half() float64 {
	low, high := 0.0, 1.0
	for beyond(high, l.DF) > 0.05 {
		low, high = high, 2*high
	}
	for range 52 { // the bits of a float64
		if t := (low + high) / 2; beyond(t, l.DF) > 0.05 {
			low = t
		} else {
			high = t
		}
	}
	return high * math.Sqrt(l.Variance)
}

// beyond is the probability that Student's t is at least so far from 0. Gonum has it, too, and its inverse, but these
// bring tables and special cases into the library that NCCL loads.
func beyond(t, df float64) float64 {
	if x := df / (df + t*t); x < 0.5 {
		return beta(df/2, 0.5, x)
	}
	return 1 - beta(0.5, df/2, t*t/(df+t*t))
}

// beta is the regularized incomplete beta function, by a series of positive terms (DLMF 8.17.8). It ends soon where x
// is at most 1/2.
func beta(a, b, x float64) float64 {
	sum, term := 0.0, 1.0
	for k := 0.0; term > 1e-16*sum; k++ {
		sum += term
		term *= x * (a + b + k) / (a + 1 + k)
	}
	both, _ := math.Lgamma(a + b)
	first, _ := math.Lgamma(a)
	second, _ := math.Lgamma(b)
	return math.Exp(both-first-second+a*math.Log(x)+b*math.Log1p(-x)) * sum / a
}
