package policy

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// The tree finds what a scan of the list finds, with few areas and many, that
// overlap or do not.
func TestAreasFindTheFirst(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 7, 8, 9, 64, 65, 500, 3000} {
		for _, length := range []uint64{3, 50, 1000} {
			randomRange := func() Range {
				low := rng.Uint64N(1000)
				if rng.IntN(50) == 0 {
					return Range{low, nccl.Inf}
				}
				return Range{low, low + rng.Uint64N(length)}
			}
			list := make([]area, n)
			for i := range list {
				list[i] = area{randomRange(), randomRange(), int32(i)}
			}
			tree := newAreas(list)
			for range 300 {
				bytes, perRank := rng.Uint64N(1100), rng.Uint64N(1100)
				want := slices.IndexFunc(list, func(a area) bool { return a.covers(bytes, perRank) })
				if got := tree.first(bytes, perRank); got != want {
					t.Fatalf("%d areas of up to %d: rule %d covers %d, %d first, the scan says %d", n, length, got, bytes, perRank, want)
				}
			}
		}
	}
}
