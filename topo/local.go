package topo

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Nearest returns the nodes of a type that are nearest to n: those with the widest path, and of these the ones with the
// best type. Nodes without a path are all equally near if there are no others.
func (s *System) Nearest(n *Node, t NodeType) []*Node {
	best, count := noPath, 0
	for i := range n.paths[t] {
		switch p := &n.paths[t][i]; {
		case p.BW > best.BW || p.BW == best.BW && p.Type < best.Type:
			best, count = *p, 1
		case p.BW == best.BW && p.Type == best.Type:
			count++
		}
	}
	near := make([]*Node, 0, count)
	for i := range n.paths[t] {
		if p := &n.paths[t][i]; p.BW == best.BW && p.Type == best.Type {
			near = append(near, s.Nodes[t][i])
		}
	}
	return near
}

// LocalCPU returns the CPU that is nearest to a GPU: widest path, then best type, then fewest hops.
func (s *System) LocalCPU(gpu *Node) *Node {
	near := s.Nearest(gpu, NodeCPU)
	if len(near) == 0 {
		near = s.Nodes[NodeCPU]
	}
	return slices.MinFunc(near, func(a, b *Node) int { return cmp.Compare(gpu.path(a).Hops, gpu.path(b).Hops) })
}

// LocalNet returns the network port that a GPU uses for a channel (0..63), nil if it reaches none. GPUs that are near
// the same ports share them so that they collide as little as possible.
func (s *System) LocalNet(gpu *Node, channel int) *Node { return s.netRotation(gpu).port(channel) }

// rotation is the order in which the channels of a GPU take turns on the ports near it.
type rotation struct {
	nets   []*Node
	first  int // of nets, for channel 0
	perGPU int // ports used
}

func (r rotation) port(channel int) *Node {
	if len(r.nets) == 0 {
		return nil
	}
	return r.nets[(r.first+channel%r.perGPU)%len(r.nets)]
}

func (s *System) netRotation(gpu *Node) rotation {
	nets := s.Nearest(gpu, NodeNET)
	if len(nets) == 0 {
		return rotation{}
	}
	gpus := max(1, len(s.Nearest(nets[0], NodeGPU)))
	r := rotation{nets: nets, first: max(0, gpu.GPU.Dev), perGPU: (len(nets) + gpus - 1) / gpus}
	if s.sharesNICs(gpu, nets) {
		r.first %= gpus
	}
	switch {
	case s.NetDevs.All:
		r.perGPU = len(nets)
	case s.NetDevs.Max > 0:
		r.perGPU = min(s.NetDevs.Max, len(nets))
	}
	if len(nets)&(len(nets)-1) == 0 {
		r.first = mirrorBits(r.first, len(nets))
	}
	return r
}

// sharesNICs reports whether a GPU begins with the NIC of its number among the GPUs that are near the same NICs.
func (s *System) sharesNICs(gpu *Node, nets []*Node) bool {
	if !s.NCCL.Has(nccl.NICsSharedOnCX8) {
		return s.NCCL.Has(nccl.NICsSharedByGPUs)
	}
	return gpu.GPU.SM >= 100 && slices.ContainsFunc(nets, func(n *Node) bool { return n.Net.ConnectX8 })
}

// mirrorBits reverses the bits of n below size, a power of 2, so that consecutive numbers end up far apart.
func mirrorBits(n, size int) int {
	width := bits.Len(uint(size)) - 1
	return int(bits.Reverse64(uint64(n)) >> (64 - width))
}

// localGPU returns the GPU that a network port serves first, or nil: the first of its nearest GPUs, by channel, that
// uses the port.
func (s *System) localGPU(net *Node) *Node {
	net = s.firstWithID(net)
	gpus := s.Nearest(net, NodeGPU)
	rotations := make([]rotation, len(gpus))
	longest := 0
	for i, g := range gpus {
		rotations[i] = s.netRotation(g)
		longest = max(longest, rotations[i].perGPU)
	}
	for c := range min(longest, nccl.MaxChannels) {
		for i, g := range gpus {
			if port := rotations[i].port(c); port != nil && port.ID == net.ID {
				return g
			}
		}
	}
	return nil
}
