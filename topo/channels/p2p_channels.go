package channels

import (
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// Constants of NCCL 2.30.7, graph/paths.cc and device.h.
const (
	p2pChannelGBps  = 14 // that one channel moves over the network
	p2pPeersInBatch = 8
)

// gpuPathRange returns the best and worst type among the paths between GPUs.
func gpuPathRange(s *topo.System) (best, worst topo.PathType) {
	best, worst = topo.PathSYS, topo.PathLOC
	for _, a := range s.Nodes[topo.NodeGPU] {
		for _, b := range s.Nodes[topo.NodeGPU] {
			if a != b {
				best, worst = min(best, s.Path(a, b).Type), max(worst, s.Path(a, b).Type)
			}
		}
	}
	return best, worst
}

// ownPorts lists the ports of a GPU by channel, until the first one comes again.
func ownPorts(s *topo.System, gpu *topo.Node, policy topo.NetDevs) ([]*topo.Node, error) {
	var ports []*topo.Node
	for channel := range nccl.MaxChannels {
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
func minNetBW(s *topo.System, policy topo.NetDevs) (float32, error) {
	var lowest float32
	if len(s.Nodes[topo.NodeNET]) == 0 {
		return 0, nil
	}
	for i, g := range s.Nodes[topo.NodeGPU] {
		ports, err := ownPorts(s, g, policy)
		if err != nil {
			return 0, err
		}
		for j, p := range ports {
			if bw := s.Path(g, p).BW; i == 0 && j == 0 || bw < lowest {
				lowest = bw
			}
		}
	}
	return lowest, nil
}

// p2pChannelsPerPeer is the number of channels that each pair of ranks could use, before it is fitted to the
// communicator's channels: as many as the narrowest connection needs.
func p2pChannelsPerPeer(s *topo.System, policy topo.NetDevs) (int, error) {
	lowest := nccl.MaxChannels
	for _, g := range s.Nodes[topo.NodeGPU] {
		for _, peer := range s.Nodes[topo.NodeGPU] {
			if peer == g {
				continue
			}
			n := 2
			if p := s.Path(peer, g); p.Type == topo.PathNVL || p.Type == topo.PathNVB {
				n = 2 * max(1, int(p.BW/topo.NVLinkBW(g.GPU.SM, s.NCCL)))
			}
			lowest = min(lowest, n)
		}
		if s.Inter {
			n, err := netChannels(s, g, policy)
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
func netChannels(s *topo.System, gpu *topo.Node, policy topo.NetDevs) (int, error) {
	cpu, err := s.LocalCPU(gpu)
	if err != nil {
		return 0, err
	}
	ports, err := ownPorts(s, gpu, policy)
	if err != nil {
		return 0, err
	}
	busy := s.Path(gpu, cpu).BW
	var total float32
	count := 0
	for _, p := range ports {
		total += s.Path(gpu, p).BW
		count++
		if total >= busy {
			break
		}
	}
	return max(count, (int(total)+p2pChannelGBps-1)/p2pChannelGBps), nil
}

// fitP2PChannels fits point-to-point to the channels of the communicator, both in powers of two.
func (c *CommTuning) fitP2PChannels() {
	c.P2PChannels = min(pow2Up(max(1, c.Tuning.NChannels)), nccl.MaxChannels)
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
