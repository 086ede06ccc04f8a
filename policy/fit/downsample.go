package fit

import "math"

// point is an input of the Gaussian process and what was seen there: ln(us) minus the physics.
type point struct {
	input
	value float64
}

// downsample merges points of one channel count that are close in size until few
// enough are left.
func downsample(points []point, most int) []point {
	for width := 1.0 / 16; len(points) > most && width < 64; width *= 1.5 {
		points = merge(points, width)
	}
	return points
}

// merge averages points of one channel count within bins of so many octaves.
// Points are ordered by channels, then size.
func merge(points []point, octaves float64) []point {
	var out []point
	for i := 0; i < len(points); {
		first := points[i]
		bin := math.Floor(first.octave / octaves)
		var sum point
		n := 0.0
		for ; i < len(points) && points[i].channels == first.channels && math.Floor(points[i].octave/octaves) == bin; i++ {
			sum.octave += points[i].octave
			sum.value += points[i].value
			sum.noise += points[i].noise
			n++
		}
		out = append(out, point{input{sum.octave / n, first.channels, sum.noise / n}, sum.value / n})
	}
	return out
}
