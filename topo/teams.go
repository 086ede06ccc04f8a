package topo

import "slices"

// LoadStore reports whether two GPUs of the system can use each other's memory by load and store: by CUDA peer access on
// one host, whatever the distance, and over NVLink between hosts. Only the driver knows whether peer access works over
// PCI, so comm.PeerAccess decides there; without it, access is taken to work.
func (s *System) LoadStore(a, b *Node, comm *Comm) bool {
	if a == b || a.GPU.Device == b.GPU.Device {
		return true
	}
	if sameHost(a, b) {
		return comm.access(a, b)
	}
	return a.path(b).Type <= PathNVL
}

// LoadStoreSets splits the GPUs of the system, by rank, into sets whose members all reach each other by load and store. If
// there is more than one, NCCL has no load/store team on this system: it needs all pairs of a node. It needs computed
// paths.
func (s *System) LoadStoreSets(comm *Comm) [][]int {
	var sets [][]*Node
	for _, g := range s.Nodes[NodeGPU] {
		sets = s.joinSet(sets, g, comm)
	}
	ranks := make([][]int, len(sets))
	for i, set := range sets {
		for _, g := range set {
			ranks[i] = append(ranks[i], g.GPU.Rank)
		}
	}
	return ranks
}

func (s *System) joinSet(sets [][]*Node, g *Node, comm *Comm) [][]*Node {
next:
	for i, set := range sets {
		for _, member := range set {
			if !s.LoadStore(g, member, comm) || !s.LoadStore(member, g, comm) {
				continue next
			}
		}
		sets[i] = append(set, g)
		return sets
	}
	return append(sets, []*Node{g})
}

// CanMultimem reports whether the hardware can multicast: at least two GPUs, all Hopper or later and connected to
// NVSwitches. The driver and NCCL_NVLS_ENABLE have their say too, which a topology does not show.
func (s *System) CanMultimem() bool {
	const hopper = 90
	gpus := s.Nodes[NodeGPU]
	return len(gpus) >= 2 && !slices.ContainsFunc(gpus, func(g *Node) bool { return g.GPU.SM < hopper || !g.GPU.Device.hasNVSwitch() })
}
