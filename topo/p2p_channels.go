package topo

// Constants of NCCL 2.30.7, graph/paths.cc and device.h.
const (
	p2pChannelGBps  = 14 // that one channel moves over the network
	p2pPeersInBatch = 8
)

// gpuPathRange returns the best and worst type among the paths between GPUs.
func (s *System) gpuPathRange() (best, worst PathType) {
	best, worst = PathSYS, PathLOC
	for _, a := range s.Nodes[NodeGPU] {
		for _, b := range s.Nodes[NodeGPU] {
			if a != b {
				best, worst = min(best, a.path(b).Type), max(worst, a.path(b).Type)
			}
		}
	}
	return best, worst
}

// ownPorts lists the ports of a GPU by channel, until the first one comes again.
func (s *System) ownPorts(gpu *Node, policy NetDevs) ([]*Node, error) {
	var ports []*Node
	for channel := range maxChannels {
		p, err := s.LocalNet(gpu, channel, policy)
		if err != nil {
			return nil, err
		}
		if len(ports) > 0 && p == ports[0] {
			break
		}
		ports = append(ports, p)
	}
	return ports, nil
}

// minNetBW is the bandwidth in GB/s of the slowest way from a GPU to one of its own ports; 0 without ports.
func (s *System) minNetBW(policy NetDevs) (float32, error) {
	var lowest float32
	if len(s.Nodes[NodeNET]) == 0 {
		return 0, nil
	}
	for i, g := range s.Nodes[NodeGPU] {
		ports, err := s.ownPorts(g, policy)
		if err != nil {
			return 0, err
		}
		for j, p := range ports {
			if bw := g.path(p).BW; i == 0 && j == 0 || bw < lowest {
				lowest = bw
			}
		}
	}
	return lowest, nil
}

// p2pChannelsPerPeer is the number of channels that each pair of ranks could use, before it is fitted to the
// communicator's channels: as many as the narrowest connection needs.
func (s *System) p2pChannelsPerPeer(policy NetDevs) (int, error) {
	lowest := maxChannels
	for _, g := range s.Nodes[NodeGPU] {
		for _, peer := range s.Nodes[NodeGPU] {
			if peer == g {
				continue
			}
			n := 2
			if p := peer.path(g); p.Type == PathNVL || p.Type == PathNVB {
				n = 2 * max(1, int(p.BW/nvLinkBW(g.GPU.SM)))
			}
			lowest = min(lowest, n)
		}
		if s.Inter {
			n, err := s.netChannels(g, policy)
			if err != nil {
				return 0, err
			}
			lowest = min(lowest, n)
		}
	}
	return lowest, nil
}

// netChannels is the number of channels to a peer over the network: one for each port that the GPU can keep busy, more if
// the ports are fast.
func (s *System) netChannels(gpu *Node, policy NetDevs) (int, error) {
	cpu, err := s.LocalCPU(gpu)
	if err != nil {
		return 0, err
	}
	ports, err := s.ownPorts(gpu, policy)
	if err != nil {
		return 0, err
	}
	busy := gpu.path(cpu).BW
	var total float32
	count := 0
	for _, p := range ports {
		total += gpu.path(p).BW
		count++
		if total >= busy {
			break
		}
	}
	return max(count, (int(total)+p2pChannelGBps-1)/p2pChannelGBps), nil
}

// fitP2PChannels fits point-to-point to the channels of the communicator, both in powers of two.
func (c *CommTuning) fitP2PChannels() {
	c.P2PChannels = min(pow2Up(max(1, c.Tuning.NChannels)), maxChannels)
	c.P2PChannelsPerPeer = pow2Up(c.P2PChannelsPerPeer)
	if c.Facts.NNodes == 1 {
		c.P2PChannelsPerPeer = min(c.P2PChannels, c.P2PChannelsPerPeer)
		return
	}
	// Over the network all peers should fit into one round.
	rounds := (c.Facts.NRanks + p2pPeersInBatch - 1) / p2pPeersInBatch
	for c.P2PChannelsPerPeer > 1 && c.P2PChannelsPerPeer*rounds > c.P2PChannels {
		c.P2PChannelsPerPeer /= 2
	}
}

func pow2Up(n int) int {
	p := 1
	for p < n {
		p *= 2
	}
	return p
}
