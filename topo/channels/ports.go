package channels

import (
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// ownPorts lists the ports of a GPU by channel, until the first one comes again.
func ownPorts(s *topo.System, gpu *topo.Node) ([]*topo.Node, error) {
	var ports []*topo.Node
	for channel := range nccl.MaxChannels {
		p, err := s.LocalNet(gpu, channel)
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
func minNetBW(s *topo.System) (float32, error) {
	var lowest float32
	if len(s.Nodes[topo.NodeNET]) == 0 {
		return 0, nil
	}
	for i, g := range s.Nodes[topo.NodeGPU] {
		ports, err := ownPorts(s, g)
		if err != nil {
			return 0, err
		}
		for j, p := range ports {
			if bw := float32(s.Path(g, p).BW); i == 0 && j == 0 || bw < lowest {
				lowest = bw
			}
		}
	}
	return lowest, nil
}
