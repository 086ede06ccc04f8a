package tuner

import (
	"math"
	"testing"
)

// The values are those of the releases' ncclTunerConstants (src/graph/tuning.cc), and 0
// from 2.31 on, which fills them in after a tuner's init.
func TestUncheckedAllGather(t *testing.T) {
	for _, c := range []struct {
		release   string
		abi       int
		ringLL128 float64
		want      bool
	}{
		{"2.21.5", 2, math.NaN(), false}, {"2.27.7", 4, math.NaN(), false},
		{"2.28.3", 5, 2 * 36.7, false}, {"2.28.9", 5, 2 * 36.7, false},
		{"2.29.2", 5, 34.5, true}, {"2.29.7", 5, 40, true}, {"2.30.3", 6, 40, true}, {"2.30.7", 6, 40, true},
		{"2.31.2", 6, 0, false}, {"2.32.6", 7, 0, false},
		{"one that passes no constants", 6, math.NaN(), true}, {"a coming one", 7, 41.5, true},
	} {
		if got := UncheckedAllGather(c.abi, c.ringLL128); got != c.want {
			t.Errorf("%s: %v, want %v", c.release, got, c.want)
		}
	}
}
