package mesh

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/termsafe"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/internal/cycle"
)

// maxExactRing is the largest mesh whose best ring is found by looking at all orders: the time grows as n²·2ⁿ.
const maxExactRing = 16

// Ring is an order of all nodes in which each sends to the next one and the last to the first.
type Ring struct {
	Order []int   `json:"-"`     // indices of Mesh.Nodes
	GBps  float64 `json:"gbps"`  // GB/s of the narrowest step, which is what a ring runs at; 0 for a single node
	Exact bool    `json:"exact"` // no order is better; false when not all were looked at
	// AllReduceGBps is an upper limit of algorithm bandwidth (bytes of the buffer by time) in GB/s: every cable of n
	// carries 2(n-1)/n of the buffer one way.
	AllReduceGBps float64 `json:"allreduce_gbps"`
}

// BestRing finds the order with the widest narrowest step and, among those, the largest sum over the steps. It starts
// at the first node and goes towards the lower one of its neighbours.
//
// Up to 16 nodes all orders count (dynamic programming over sets of nodes). Above, a heuristic looks: from each of
// several starts it goes to the widest link next, then improves the order by reversing and moving stretches until
// nothing helps. It repeats that for each bandwidth that could be the narrowest, by bisection.
//
// The error is that two nodes are apart altogether, or that there is no ring of direct links.
func (m *Mesh) BestRing() (Ring, error) {
	for b := range m.Nodes {
		if m.route(0, b) == nil {
			return Ring{}, m.apart(0, b)
		}
	}
	n := len(m.Nodes)
	best := Ring{}
	best.Order, best.Exact = m.bw.Widest(maxExactRing)
	if n == 1 {
		return best, nil
	}
	best.GBps = cycle.Width(m.bw, best.Order)
	if best.GBps == 0 {
		return Ring{}, m.noRing(best)
	}
	best.AllReduceGBps = best.GBps * float64(n) / float64(2*(n-1))
	if n > 2 && best.Order[n-1] < best.Order[1] {
		slices.Reverse(best.Order[1:])
	}
	return best, nil
}

// noRing names the first step without a link of an order with the fewest such steps.
func (m *Mesh) noRing(r Ring) error {
	var names, gaps []string
	for i, a := range r.Order {
		b := r.Order[(i+1)%len(r.Order)]
		names = append(names, m.Nodes[a].Name)
		if m.BW(a, b) == 0 {
			gaps = append(gaps, m.Nodes[a].Name+" and "+m.Nodes[b].Name)
		}
	}
	found, more := "no ring", ""
	if !r.Exact {
		found = "found no ring"
	}
	if len(gaps) > 1 {
		more = fmt.Sprintf(" (and %d more)", len(gaps)-1)
	}
	return fmt.Errorf("%s of direct links: the best order, %s, has none between %s%s",
		found, termsafe.Line(strings.Join(names, ", ")), termsafe.Line(gaps[0]), more)
}
