package topo

// Trim takes out the GPUs that are not in the domain of comm.Rank: those that can only be reached over the network. Their
// devices stay. It needs paths computed with the communicator, and leaves all paths to be computed anew.
func (s *System) Trim(comm *Comm) {
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
		if g.GPU.Rank == comm.Rank {
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
	s.Inter = len(s.Nodes[NodeGPU]) != comm.NRanks
}

// Init does what NCCL does with a topology when a communicator is created: compute paths, trim the system to what the
// communicator reaches without the network, and compute them again.
func (s *System) Init(set Settings, comm *Comm) error {
	if err := s.ComputePaths(set, comm); err != nil {
		return err
	}
	s.Trim(comm)
	return s.ComputePaths(set, comm)
}
