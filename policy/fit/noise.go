package fit

import (
	"math"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
)

// probableNoiseMax bounds the noise that repetitions are believed to have, in ln(us).
const probableNoiseMax = 0.5

// noiseOf is the standard deviation of ln(us) behind differences of two. These have
// sqrt(2) of one value's deviation, and the median of their absolute value is 0.6745
// of that.
func noiseOf(differences []float64) float64 {
	return min(max(stats.Median(differences)/0.6745/math.Sqrt2, leastNoise), probableNoiseMax)
}
