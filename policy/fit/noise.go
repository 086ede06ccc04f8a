package fit

import "math"

// probableNoiseMax bounds the noise that repetitions are believed to have, in ln(us).
const probableNoiseMax = 0.5

// noiseOf is the standard deviation of ln(us) behind differences of two. These have
// sqrt(2) of one value's deviation, and the median of their absolute value is 0.6745
// of that.
func noiseOf(differences []float64) float64 {
	return min(max(median(differences)/0.6745/math.Sqrt2, leastNoise), probableNoiseMax)
}
