package stats

import "math"

// Nested is the noise of values of which several starts of a program have measured some each. Repetitions in a start do
// not average out what the start draws, as the way that its connections take.
type Nested struct {
	Between, Within float64 // variances: of what starts draw, and of the values of a start
}

// QuietNoise is what repetitions, and starts, of a quiet machine usually differ by, as a standard deviation of ln(us).
const QuietNoise = 0.01

// medianVariance: the median of three to five values varies more than their mean by about this factor (1.57 for many).
// Inside a start the median is taken, since one call in a hundred takes much longer.
const medianVariance = 1.3

// OfMean is the variance of the mean of so many starts, with so many values in all.
func (n Nested) OfMean(starts, values float64) float64 {
	return n.Between/starts + medianVariance*n.Within/values
}

// Middle is the median, which one disturbed value in several does not change. Of two values nothing tells which one is
// disturbed.
func Middle(values []float64) float64 {
	if len(values) > 2 {
		return Median(values)
	}
	return Mean(values)
}

// Deviations are those of values from a middle that they gave, which each of them drew to itself. Of one there is none.
func Deviations(values []float64, middle float64) (all []float64) {
	n := float64(len(values))
	for _, x := range values {
		if n > 1 {
			all = append(all, math.Abs(x-middle)*math.Sqrt(n/(n-1)))
		}
	}
	return all
}

// Sigma is the standard deviation of normal values that deviate so much from their middle. What a few of them do does
// not change it much.
func Sigma(deviations []float64) float64 { return Median(deviations) / 0.6745 }
