// Package stats sums up measured values. Without values each result is NaN. The functions do not reorder the values.
package stats

import (
	"encoding/json"
	"math"
	"slices"
)

// Optional is a number that may not be known, and is NaN then. JSON leaves it out where its tag has omitzero.
type Optional float64

// IsZero reports whether the number is not known.
func (o Optional) IsZero() bool { return math.IsNaN(float64(o)) }

// Float is the number, NaN where it is not known.
func (o Optional) Float() float64 { return float64(o) }

// MarshalJSON writes the largest number for infinity, which JSON does not have.
func (o Optional) MarshalJSON() ([]byte, error) {
	return json.Marshal(min(float64(o), math.MaxFloat64))
}

// Median is the middle value, or the mean of the two in the middle.
func Median(values []float64) float64 { return Quantile(values, 0.5) }

// Quantile interpolates between the two nearest ranks (type 7 of Hyndman and Fan, 1996).
func Quantile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	v := slices.Sorted(slices.Values(values))
	at := p * float64(len(v)-1)
	i := int(at)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}

// Mean is the arithmetic mean.
func Mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values)) // 0/0 is NaN
}
