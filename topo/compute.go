package topo

// The search for paths: the widest from each node to each other, and of these the shortest. The order in which nodes
// and links are visited decides ties as in NCCL, so it must not change.

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// SetPaths finds the best path from every node to every CPU, DEV, GPU, NET, GIN, RMA and NVS node, before any diversion
// (stage "raw"). It forgets earlier paths.
func (s *System) SetPaths() error {
	for _, nodes := range s.Nodes {
		for _, n := range nodes {
			n.paths, n.queued = [numNodeTypes][]Path{}, false
		}
	}
	search := search{sys: s}
	for _, t := range []NodeType{NodeCPU, NodeDEV, NodeGPU, NodeNET, NodeGIN, NodeRMA, NodeNVS} {
		for _, base := range s.Nodes[t] {
			if err := search.run(base); err != nil {
				return err
			}
		}
	}
	return nil
}

// ComputePaths finds all paths and then diverts those that NCCL would not use directly: between GPUs without
// peer-to-peer, and between GPUs and NICs without GPUDirect RDMA, through the CPU; to NICs that another GPU is nearer
// to, through that GPU (PXN). GPUs that neither P2P nor shared memory connects get a path of type NET.
func (s *System) ComputePaths() error {
	if err := s.SetPaths(); err != nil {
		return err
	}
	s.divertGPUs()
	s.markP2C()
	for _, net := range s.Nodes[NodeNET] {
		s.divertNet(net)
	}
	for _, net := range s.Nodes[NodeNET] {
		net.Net.LocalGPU = -1
		if gpu := s.localGPU(net); gpu != nil {
			net.Net.LocalGPU = gpu.Index
		}
	}
	return nil
}

// divertGPUs goes target by target, as NCCL does: a later decision sees the diversions before it.
func (s *System) divertGPUs() {
	gpus := s.Nodes[NodeGPU]
	for _, to := range gpus {
		for _, from := range gpus {
			if !s.CheckP2P(from, to).OK {
				s.divert(from, s.LocalCPU(to), to)
			}
		}
		for _, from := range gpus { // Trim relies on the type NET of what neither P2P nor shared memory connects
			if from != to && !s.UsesP2P(from, to) && !s.UsesSHM(from, to) {
				from.path(to).Type = PathNET
			}
		}
	}
}

// divert makes the path between two nodes go through a third.
func (s *System) divert(from, via, to *Node) {
	a, b := from.path(via), via.path(to)
	p := Path{
		Type:  s.mergeTypes(a.Type, b.Type),
		Hops:  a.Hops + b.Hops,
		BW:    min(a.BW, b.BW),
		Links: slices.Concat(a.Links, b.Links),
	}
	if via.Type == NodeGPU {
		p.Type = PathPXN
	}
	*from.path(to) = p
}

// mergeTypes is the type of two paths in a row.
func (s *System) mergeTypes(a, b PathType) PathType {
	if min(a, b) == PathC2C && max(a, b) == PathPHB && s.NCCL.Has(nccl.P2CPaths) {
		return PathP2C
	}
	return max(a, b)
}

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

// markP2C gives GPUs on C2C the type P2C for their nearest ports, if those hang off the CPU. Farther ports keep their
// type, so that PXN is preferred for them.
func (s *System) markP2C() {
	for _, gpu := range s.Nodes[NodeGPU] {
		cpu, nets := s.LocalCPU(gpu), s.Nearest(gpu, NodeNET)
		if !s.NCCL.Has(nccl.P2CNearestNICs) {
			nets = s.Nodes[NodeNET]
		}
		for _, net := range nets {
			if s.mergeTypes(gpu.path(cpu).Type, net.path(cpu).Type) != PathP2C {
				continue
			}
			for _, p := range []*Path{gpu.path(net), net.path(gpu)} {
				p.Type = min(p.Type, PathP2C)
			}
		}
	}
}

// divertNet diverts the paths of GPUs to a port through the port's own GPU (PXN), and both directions through the CPU
// where GPUDirect RDMA is not used. Each diversion may change which GPU is the port's own.
func (s *System) divertNet(net *Node) {
	for _, gpu := range s.Nodes[NodeGPU] {
		if own := s.localGPU(net); !s.PXNDisable && own != nil && s.mayRelay(gpu, own, net) {
			s.divert(gpu, own, net)
		}
		s.stage(gpu, net)
	}
}

// mayRelay says whether it is better for a GPU to reach a port through the port's own GPU. Only sending is relayed: a
// port receives for its own GPU.
func (s *System) mayRelay(gpu, own, net *Node) bool {
	farthest := PathP2C
	if s.PXNC2CDisable || !s.NCCL.Has(nccl.PXNThroughC2C) {
		farthest = PathPXB
	}
	there, here := own.path(net), gpu.path(net)
	return own != gpu && s.CheckGDR(own, net, true).Mode != GDROff && there.Type <= farthest &&
		own.path(gpu).Type <= PathNVL && sameHost(own, gpu) && (there.BW > here.BW || here.Type > PathPXN)
}

// stage makes a GPU and a port exchange data through the memory of the GPU's CPU if they are near enough for GPUDirect
// RDMA but do not use it.
func (s *System) stage(gpu, net *Node) {
	if gpu.path(net).Type < PathPHB && s.CheckGDR(gpu, net, false).Mode == GDROff {
		cpu := s.LocalCPU(gpu)
		s.divert(net, cpu, gpu)
		s.divert(gpu, cpu, net)
	}
}
