package mesh

import "math/bits"

// Trees is NCCL's pair of binary trees over the nodes, each for one half of the data.
type Trees struct {
	// GBps is the rate in GB/s at which all edges of both trees can run at once, given that relayed edges pass over
	// the links of others; 0 for a single node.
	GBps  float64 `json:"gbps"`
	Depth int     `json:"depth"` // edges from the root of the deeper tree to its farthest leaf
	// Relayed counts edges between nodes without a direct link. NCCL does not relay: without hosts that route IP
	// packets, or a net plugin that does, a tree with such edges fails to connect.
	Relayed int `json:"relayed"`
	// AllReduceGBps is an upper limit of algorithm bandwidth (bytes of the buffer by time) in GB/s: every edge of both
	// trees carries half of the buffer up and down again.
	AllReduceGBps float64 `json:"allreduce_gbps"`
}

// Trees lays NCCL's trees over the nodes in the given order, which is the order of the hosts' ranks. The error is
// that two nodes are apart altogether.
func (m *Mesh) Trees(order []int) (Trees, error) {
	var t Trees
	load := make(map[[2]int]int) // edges over a link, which carry as much one way as the other
	n := len(order)
	for k := range 2 {
		parent := treeParents(n, k)
		for i, p := range parent {
			if p < 0 {
				continue
			}
			way := m.route(order[i], order[p])
			if way == nil {
				return Trees{}, m.apart(order[i], order[p])
			}
			if len(way) > 2 {
				t.Relayed++
			}
			for j := 1; j < len(way); j++ {
				a, b := way[j-1], way[j]
				load[[2]int{min(a, b), max(a, b)}]++
			}
			t.Depth = max(t.Depth, depthOf(parent, i))
		}
	}
	for link, edges := range load {
		if rate := m.BW(link[0], link[1]) / float64(edges); t.GBps == 0 || rate < t.GBps {
			t.GBps = rate
		}
	}
	t.AllReduceGBps = 2 * t.GBps
	return t, nil
}

// treeParents returns the parent of each node in one of NCCL's two trees, -1 for the root. In the first, the parent
// of i is i with its lowest 1 moved up one place, or cleared where that is out of range; the second is the first one
// mirrored, or for an odd number of nodes shifted by one, so that leaves of one are not leaves of the other.
func treeParents(n, tree int) []int {
	parents := make([]int, n)
	for i := range parents {
		at := i
		switch {
		case tree == 1 && n%2 == 0:
			at = n - 1 - i
		case tree == 1:
			at = (i + n - 1) % n
		}
		p := -1
		if at > 0 {
			low := 1 << bits.TrailingZeros(uint(at))
			if p = at ^ low | low<<1; p >= n {
				p = at ^ low
			}
		}
		switch {
		case p < 0 || tree == 0:
		case n%2 == 0:
			p = n - 1 - p
		default:
			p = (p + 1) % n
		}
		parents[i] = p
	}
	return parents
}

func depthOf(parent []int, i int) int {
	depth := 0
	for ; parent[i] >= 0; i = parent[i] {
		depth++
	}
	return depth
}
