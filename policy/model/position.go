package model

import (
	"math"
	"slices"
)

// position is where a size lies on an axis: t of the way from value i to the next.
type position struct {
	bytes uint64
	i     int
	t     float64
}

// locate a size within the axis.
func (g *compiledGroup) locate(bytes uint64) position {
	i, exact := slices.BinarySearch(g.axis, bytes)
	if exact {
		return position{bytes, i, 0}
	}
	return position{bytes, i - 1, (math.Log2(float64(bytes)) - g.octaves[i-1]) / (g.octaves[i] - g.octaves[i-1])}
}

func (p position) exact() bool { return p.t == 0 }

// in interpolates; NaN where the table has no value on either side.
func (p position) in(t lnTable) (mean, sigma float64) {
	if len(t.ln) == 0 {
		return math.NaN(), math.NaN()
	}
	return p.value(t.ln), p.value(t.sigma)
}

func (p position) value(v []float64) float64 {
	if p.exact() {
		return v[p.i]
	}
	return v[p.i] + (v[p.i+1]-v[p.i])*p.t
}
