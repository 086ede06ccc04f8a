package topo

import (
	"fmt"
	"math/bits"
)

// local returns the nodes of a type that are nearest to n: those with the widest path, and of these the ones with the
// best type. Nodes without a path are all equally near if there are no others.
func (s *System) local(n *Node, t NodeType) []*Node {
	var near []*Node
	best := Path{Type: PathDIS}
	for i := range n.paths[t] {
		p := &n.paths[t][i]
		if p.BW > best.BW || p.BW == best.BW && p.Type < best.Type {
			best = *p
			near = near[:0]
		}
		if p.BW == best.BW && p.Type == best.Type {
			near = append(near, s.Nodes[t][i])
		}
	}
	return near
}

// LocalCPU returns the CPU that is nearest to a GPU: widest path, then best type, then fewest hops.
func (s *System) LocalCPU(gpu *Node) (*Node, error) {
	var best *Node
	for _, cpu := range s.local(gpu, NodeCPU) {
		if best == nil || gpu.path(cpu).Hops < gpu.path(best).Hops {
			best = cpu
		}
	}
	if best == nil {
		return nil, fmt.Errorf("no path from %s to a CPU", gpu.Name())
	}
	return best, nil
}

// LocalNet returns the network port that a GPU uses for a channel (0..63). GPUs that are near the same ports share them
// so that they collide as little as possible.
func (s *System) LocalNet(gpu *Node, channel int, policy NetDevs) (*Node, error) {
	ports, err := s.netRotation(gpu, policy)
	if err != nil {
		return nil, err
	}
	return ports[channel%len(ports)], nil
}

// netRotation returns the ports that a GPU uses for its channels in turn.
func (s *System) netRotation(gpu *Node, policy NetDevs) ([]*Node, error) {
	nets := s.local(gpu, NodeNET)
	if len(nets) == 0 {
		return nil, fmt.Errorf("no path from %s to the network", gpu.Name())
	}
	gpus := len(s.local(nets[0], NodeGPU))
	if gpus == 0 {
		return nil, fmt.Errorf("no path from %s to a GPU", nets[0].Name())
	}
	perGPU := (len(nets) + gpus - 1) / gpus
	switch {
	case policy.All:
		perGPU = len(nets)
	case policy.Max > 0:
		perGPU = min(policy.Max, len(nets))
	}
	first := gpu.GPU.Dev % gpus
	if len(nets)&(len(nets)-1) == 0 {
		first = mirrorBits(first, len(nets))
	}
	ports := make([]*Node, perGPU)
	for i := range ports {
		ports[i] = nets[max(0, first+i)%len(nets)]
	}
	return ports, nil
}

// mirrorBits reverses the bits of n below size, a power of 2, so that consecutive numbers end up far apart.
func mirrorBits(n, size int) int {
	width := bits.Len(uint(size)) - 1
	return int(bits.Reverse64(uint64(n)) >> (64 - width))
}

// LocalGPU returns the GPU that a network port serves first, or nil: the first of its nearest GPUs, by channel, that uses
// the port.
func (s *System) LocalGPU(net *Node, policy NetDevs) (*Node, error) {
	gpus := s.local(net, NodeGPU)
	rotations := make([][]*Node, len(gpus))
	longest := 0
	for i, g := range gpus {
		ports, err := s.netRotation(g, policy)
		if err != nil {
			return nil, err
		}
		rotations[i] = ports
		longest = max(longest, len(ports))
	}
	for c := range min(longest, maxChannels) {
		for i, g := range gpus {
			if rotations[i][c%len(rotations[i])].ID == net.ID {
				return g, nil
			}
		}
	}
	return nil, nil
}
