package topo

// Trim takes out the GPUs that a rank reaches only over the network, and notes whether that leaves all ranks of the
// communicator. Devices stay. It needs paths, and leaves all of them to be computed anew.
func (s *System) Trim(rank, ranks int) {
	gpus := s.Nodes[NodeGPU]
	domain := make([]int, len(gpus))
	mine := 0
	for i, g := range gpus {
		domain[i] = i
		for j, peer := range gpus[:i] {
			if g.path(peer).Type < PathNET {
				domain[i] = min(domain[i], domain[j])
			}
		}
		if g.GPU.Rank == rank {
			mine = domain[i]
		}
	}
	var gone []*Node
	for i, g := range gpus {
		if domain[i] != mine {
			gone = append(gone, g)
		}
	}
	for _, g := range gone {
		s.remove(g)
	}
	s.Inter = len(s.Nodes[NodeGPU]) != ranks
}

// Init does what NCCL does with a topology when a rank creates a communicator of so many ranks: it computes paths,
// trims the system to what the rank reaches without the network, and computes paths again.
func (s *System) Init(rank, ranks int) error {
	if err := s.ComputePaths(); err != nil {
		return err
	}
	s.Trim(rank, ranks)
	return s.ComputePaths()
}
