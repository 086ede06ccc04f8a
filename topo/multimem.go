package topo

import "slices"

// LoadStoreSets splits the GPUs of the system, by rank, into sets whose members all reach each other by load and
// store: on one host, and over NVLink between hosts. If there is more than one, NCCL has no load/store team on this
// system: it needs all pairs of a node. It needs computed paths.
func (s *System) LoadStoreSets() [][]int {
	apart := func(a, b *Node) bool {
		return !sameHost(a, b) && (a.path(b).Type > PathNVL || b.path(a).Type > PathNVL)
	}
	var sets [][]*Node
	for _, g := range s.Nodes[NodeGPU] {
		i := slices.IndexFunc(sets, func(set []*Node) bool {
			return !slices.ContainsFunc(set, func(member *Node) bool { return apart(g, member) })
		})
		if i < 0 {
			i, sets = len(sets), append(sets, nil)
		}
		sets[i] = append(sets[i], g)
	}
	ranks := make([][]int, len(sets))
	for i, set := range sets {
		for _, g := range set {
			ranks[i] = append(ranks[i], g.GPU.Rank)
		}
	}
	return ranks
}

// CanMultimem reports whether the hardware can multicast: at least two GPUs, all Hopper or later and connected to
// NVSwitches. The driver and NCCL_NVLS_ENABLE have their say too, which a topology does not show.
func (s *System) CanMultimem() bool {
	const hopper = 90
	gpus := s.Nodes[NodeGPU]
	return len(gpus) >= 2 && !slices.ContainsFunc(gpus, func(g *Node) bool {
		return g.GPU.SM < hopper || !g.GPU.Device.hasNVSwitch()
	})
}
