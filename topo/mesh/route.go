package mesh

import (
	"fmt"
	"math"
	"slices"
)

// route is the way from one node to another over the fewest links and, of those, the widest narrowest link; it holds
// all nodes on the way with both ends. It is nil when the two are apart.
func (m *Mesh) route(from, to int) []int {
	n := len(m.Nodes)
	hops, width, before := make([]int, n), make([]float64, n), make([]int, n)
	for i := range hops {
		hops[i], before[i] = -1, -1
	}
	hops[from], width[from] = 0, math.Inf(1)
	for layer, queue := 0, []int{from}; len(queue) > 0; layer++ {
		var next []int
		for _, a := range queue {
			for b := range n {
				bw := min(width[a], m.BW(a, b))
				if bw == 0 || hops[b] >= 0 && (hops[b] <= layer || width[b] >= bw) {
					continue
				}
				if hops[b] < 0 {
					next = append(next, b)
				}
				hops[b], width[b], before[b] = layer+1, bw, a
			}
		}
		queue = next
	}
	if hops[to] < 0 {
		return nil
	}
	way := []int{to}
	for at := to; at != from; at = before[at] {
		way = append(way, before[at])
	}
	slices.Reverse(way)
	return way
}

func (m *Mesh) apart(a, b int) error {
	return fmt.Errorf("no way from %s to %s, not even over other nodes", m.Nodes[a].Name, m.Nodes[b].Name)
}
