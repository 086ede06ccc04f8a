package topo

// Comm is the communicator that paths are computed for. All GPUs of the system belong to it.
type Comm struct {
	// Rank is the rank whose view is taken; it must be in the system.
	Rank int
	// NRanks counts the ranks of the communicator, also those on other systems.
	NRanks int
}

// WholeComm is the communicator of all GPUs of a system and no others, seen from its lowest rank.
func WholeComm(s *System) *Comm {
	c := &Comm{NRanks: len(s.Nodes[NodeGPU])}
	for i, g := range s.Nodes[NodeGPU] {
		if i == 0 || g.GPU.Rank < c.Rank {
			c.Rank = g.GPU.Rank
		}
	}
	return c
}

// Ranks lists the ranks of the system in the order of its GPUs.
func (s *System) Ranks() []int {
	ranks := []int{}
	for _, g := range s.Nodes[NodeGPU] {
		ranks = append(ranks, g.GPU.Rank)
	}
	return ranks
}

// byRank returns the first GPU with a rank, or nil.
func (s *System) byRank(rank int) *Node {
	return s.first(NodeGPU, func(g *Node) bool { return g.GPU.Rank == rank })
}

// byDevice returns the first GPU of a host with an NVML index, or nil.
func (s *System) byDevice(system, dev int) *Node {
	return s.first(NodeGPU, func(g *Node) bool { return g.ID.System() == system && g.GPU.Dev == dev })
}
