package topo

import "testing"

func TestWidestRing(t *testing.T) {
	// pairs makes the bandwidths of n GPUs; pairs that are not named have the bandwidth other.
	pairs := func(n int, other float64, named map[[2]int]float64) [][]float64 {
		bw := make([][]float64, n)
		for i := range bw {
			bw[i] = make([]float64, n)
			for j := range bw[i] {
				switch v, ok := named[[2]int{min(i, j), max(i, j)}]; {
				case ok:
					bw[i][j] = v
				case i != j:
					bw[i][j] = other
				}
			}
		}
		return bw
	}
	halves := map[[2]int]float64{} // two groups of eight that are wide inside
	for _, first := range []int{0, 8} {
		for i := range 8 {
			for j := range i {
				halves[[2]int{first + j, first + i}] = 100
			}
		}
	}
	for name, tt := range map[string]struct {
		bw   [][]float64
		want float64
	}{
		"pair":                  {pairs(2, 7, nil), 7},
		"all alike":             {pairs(72, 5, nil), 5},
		"a wide ring, shuffled": {pairs(5, 1, map[[2]int]float64{{0, 2}: 9, {2, 4}: 8, {1, 4}: 9, {1, 3}: 9, {0, 3}: 9}), 8},
		"a star has no ring":    {pairs(4, 0, map[[2]int]float64{{0, 1}: 9, {0, 2}: 9, {0, 3}: 9}), 0},
		"wide only in a part":   {pairs(4, 2, map[[2]int]float64{{0, 1}: 9, {1, 2}: 9, {0, 2}: 9}), 2},
		"two halves":            {pairs(16, 10, halves), 10},
	} {
		if got := widestRing(tt.bw); got != tt.want {
			t.Errorf("%s: %g, want %g", name, got, tt.want)
		}
	}
}
