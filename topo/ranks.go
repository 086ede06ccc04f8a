package topo

import "slices"

// Whole returns the lowest rank of the system and the number of ranks: a communicator of all GPUs and no others.
func (s *System) Whole() (rank, ranks int) {
	all := s.Ranks()
	if len(all) > 0 {
		rank = slices.Min(all)
	}
	return rank, len(all)
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
