package mesh

import (
	"fmt"
	"slices"
	"strings"
)

// maxExactRing is the largest mesh whose best ring is found by looking at all orders: the time grows as n²·2ⁿ.
const maxExactRing = 16

// Ring is an order of all nodes in which each sends to the next one and the last to the first.
type Ring struct {
	Order []int   // indices of Mesh.Nodes
	GBps  float64 // GB/s of the narrowest step, which is what a ring runs at
	Sum   float64 // GB/s of all steps together
	Exact bool    // no order is better; false when not all were looked at
}

// NoRingError says that no order of the nodes has a direct link at each step.
type NoRingError struct {
	From, To string   // the step without a link in the best order
	Order    []string // the order with the fewest such steps
	Missing  int      // how many it has
	Exact    bool     // false when not all orders were looked at, so that there may be a ring after all
}

func (e *NoRingError) Error() string {
	found := "no ring of direct links"
	if !e.Exact {
		found = "found no ring of direct links"
	}
	more := ""
	if e.Missing > 1 {
		more = fmt.Sprintf(" (and %d more)", e.Missing-1)
	}
	return fmt.Sprintf("%s: the best order, %s, has none between %s and %s%s", found, strings.Join(e.Order, ", "), e.From, e.To, more)
}

// RingOf rates an order of all nodes. The error is a *NoDirectLinkError for the first step without a link.
func (m *Mesh) RingOf(order []int) (Ring, error) {
	sorted := slices.Sorted(slices.Values(order))
	for i, n := range sorted {
		if n != i || len(sorted) != len(m.Nodes) {
			return Ring{}, fmt.Errorf("order %v is not one of %d nodes", order, len(m.Nodes))
		}
	}
	r := Ring{Order: slices.Clone(order)}
	if len(order) < 2 {
		return r, nil
	}
	for i, a := range order {
		b := order[(i+1)%len(order)]
		bw := m.BW(a, b)
		if bw == 0 {
			return Ring{}, m.noLink(a, b)
		}
		if i == 0 || bw < r.GBps {
			r.GBps = bw
		}
		r.Sum += bw
	}
	return r, nil
}

// BestRing finds the order with the widest narrowest step and, among those, the largest sum over the steps. It starts at
// the first node and goes towards the lower one of its neighbours.
//
// Up to 16 nodes all orders count (dynamic programming over sets of nodes). Above, a heuristic looks: from each of several
// starts it goes to the widest link next, then improves the order by reversing and moving stretches until nothing
// helps. It repeats that for each bandwidth that could be the narrowest, by bisection.
//
// The error is a *NoDirectLinkError when two nodes are apart altogether, else a *NoRingError.
func (m *Mesh) BestRing() (Ring, error) {
	if b := m.unreached(); b > 0 {
		return Ring{}, m.apart(0, b)
	}
	n := len(m.Nodes)
	order, exact := m.bw.Widest(maxExactRing)
	best, err := m.RingOf(order)
	if err != nil {
		return Ring{}, m.noRing(order, exact)
	}
	best.Exact = exact
	if n > 2 && best.Order[n-1] < best.Order[1] {
		slices.Reverse(best.Order[1:])
	}
	return best, nil
}

func (m *Mesh) noRing(order []int, exact bool) *NoRingError {
	e := &NoRingError{Exact: exact}
	for i, a := range order {
		b := order[(i+1)%len(order)]
		e.Order = append(e.Order, m.Nodes[a].Name)
		if m.BW(a, b) == 0 {
			if e.Missing == 0 {
				e.From, e.To = m.Nodes[a].Name, m.Nodes[b].Name
			}
			e.Missing++
		}
	}
	return e
}
