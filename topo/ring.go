package topo

import (
	"slices"
	"sort"
)

// maxRingSteps bounds the search for a ring. Up to ten GPUs it is enough to try all orders. Machines with more GPUs
// nearly always join all of them alike, and then the first order is a ring.
const maxRingSteps = 1 << 20

// widestRing returns the bandwidth of the ring through all GPUs whose narrowest step is the widest, 0 if there is no
// ring. bw holds the bandwidth of each pair, the same both ways and 0 from a GPU to itself.
func widestRing(bw [][]float64) float64 {
	widths := slices.Concat(bw...)
	slices.Sort(widths)
	widths = slices.Compact(widths)
	// Steps of width 0 always make a ring, so the search ends above the first entry.
	tooWide := sort.Search(len(widths), func(i int) bool { return !hasRing(bw, widths[i]) })
	return widths[tooWide-1]
}

// hasRing reports whether it finds a ring without a step narrower than width.
func hasRing(bw [][]float64, width float64) bool {
	stepsLeft := maxRingSteps
	used := make([]bool, len(bw))
	var visit func(at, left int) bool
	visit = func(at, left int) bool {
		if left == 0 {
			return bw[at][0] >= width
		}
		if stepsLeft--; stepsLeft < 0 {
			return false
		}
		used[at] = true
		for next := range bw {
			if !used[next] && bw[at][next] >= width && visit(next, left-1) {
				return true
			}
		}
		used[at] = false
		return false
	}
	return visit(0, len(bw)-1)
}
