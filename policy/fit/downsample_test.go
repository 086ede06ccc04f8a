package fit

import (
	"math"
	"testing"
)

// Merged points keep each channel count and lie within their bins.
func TestThin(t *testing.T) {
	var points []point
	for c := range 8 {
		for i := range 300 {
			points = append(points, point{input{10 + float64(i)/30, float64(c), 0.01}, float64(i)})
		}
	}
	thinned := downsample(points, 96)
	seen := map[float64]int{}
	for _, p := range thinned {
		seen[p.channels]++
		if want := (p.octave - 10) * 30; math.Abs(want-p.value) > 1e-6 {
			t.Errorf("at %.3f octaves %.3f, want the mean %.3f", p.octave, p.value, want)
		}
	}
	if len(thinned) > 96 || len(thinned) < 40 || len(seen) != 8 {
		t.Errorf("%d points of %d channel counts", len(thinned), len(seen))
	}
}
