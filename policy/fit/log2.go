package fit

import (
	"math"
	"slices"
)

// median sorts its argument; of an empty one it is NaN.
func median(v []float64) float64 { return quantile(v, 0.5) }

// quantile sorts its argument and interpolates between the two nearest ranks
// (type 7 of Hyndman and Fan). Of no values it is NaN.
func quantile(v []float64, p float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	at := p * float64(len(v)-1)
	i := int(at)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}

func mean(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

func log2(bytes uint64) float64 { return math.Log2(float64(bytes)) }
