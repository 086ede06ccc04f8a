// Package cycle finds the order in which a ring visits nodes so that its narrowest step is as wide as possible.
package cycle

import "slices"

// Weights are the bandwidths of all pairs, 0 where there is no link.
type Weights [][]float64

// Widest returns an order, starting with node 0, with the fewest missing links, then the widest narrowest step, then
// the largest sum of steps. Up to exactLimit nodes nothing is better than it.
func (w Weights) Widest(exactLimit int) (order []int, exact bool) {
	search := improved
	if exact = len(w) <= exactLimit; exact {
		search = heldKarp
	}
	order = search(w.atLeast(0))
	widths := w.distinct()
	narrowest := Width(w, order)
	if narrowest == 0 {
		return order, exact
	}
	// There is an order whose steps are all of widths[lo] or more, and none known with all of widths[hi].
	for lo, hi := 0, len(widths); hi-lo > 1; {
		mid := (lo + hi) / 2
		wider := search(w.atLeast(widths[mid]))
		width := Width(w, wider)
		if width < widths[mid] {
			hi = mid
			continue
		}
		lo = mid
		if width > narrowest || width == narrowest && weight(w, wider) > weight(w, order) {
			order, narrowest = wider, width
		}
	}
	return order, exact
}

// atLeast makes each pair narrower than a width so bad that any order with fewer of them is better.
func (w Weights) atLeast(width float64) Weights {
	penalty := 1.0
	for _, row := range w {
		for _, bw := range row {
			penalty += bw
		}
	}
	out := make(Weights, len(w))
	for a, row := range w {
		out[a] = slices.Clone(row)
		for b, bw := range row {
			if bw == 0 || bw < width {
				out[a][b] = -penalty
			}
		}
	}
	return out
}

// distinct lists the bandwidths of linked pairs in ascending order.
func (w Weights) distinct() []float64 {
	var all []float64
	for _, row := range w {
		for _, bw := range row {
			if bw > 0 {
				all = append(all, bw)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
