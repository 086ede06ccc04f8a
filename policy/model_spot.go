package policy

import (
	"math"
	"slices"
)

// spot is a size's position on an axis: t of the way from value i to the next.
type spot struct {
	bytes uint64
	i     int
	t     float64
}

// locate a size within the axis.
func (g *modelGroup) locate(bytes uint64) spot {
	i, exact := slices.BinarySearch(g.axis, bytes)
	if exact {
		return spot{bytes, i, 0}
	}
	return spot{bytes, i - 1, (math.Log2(float64(bytes)) - g.octaves[i-1]) / (g.octaves[i] - g.octaves[i-1])}
}

func (p spot) exact() bool { return p.t == 0 }

// in interpolates; NaN where the table has no value on either side.
func (p spot) in(t modelTable) (mean, sigma float64) {
	if len(t.ln) == 0 {
		return math.NaN(), math.NaN()
	}
	return p.value(t.ln), p.value(t.sigma)
}

func (p spot) value(v []float64) float64 {
	if p.exact() {
		return v[p.i]
	}
	return v[p.i] + (v[p.i+1]-v[p.i])*p.t
}
