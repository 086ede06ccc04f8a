package topo

// The search for paths: the widest from each node to each other, and of these the shortest. The order in which nodes
// and links are visited decides ties as in NCCL, so it must not change.

import (
	"fmt"
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
	if err := s.divertGPUs(); err != nil {
		return err
	}
	if err := s.markP2C(); err != nil {
		return err
	}
	for _, net := range s.Nodes[NodeNET] {
		if err := s.divertNet(net); err != nil {
			return err
		}
	}
	for _, net := range s.Nodes[NodeNET] {
		gpu, err := s.localGPU(net)
		if err != nil {
			return err
		}
		net.Net.LocalGPU = -1
		if gpu != nil {
			net.Net.LocalGPU = gpu.Index
		}
	}
	return nil
}

// divertGPUs goes target by target, as NCCL does: a later decision sees the diversions before it.
func (s *System) divertGPUs() error {
	gpus := s.Nodes[NodeGPU]
	for _, to := range gpus {
		for _, from := range gpus {
			p2p, err := s.CheckP2P(from, to)
			if err != nil {
				return err
			}
			if p2p.OK {
				continue
			}
			cpu, err := s.LocalCPU(to)
			if err != nil {
				return err
			}
			if err := s.divert(from, cpu, to); err != nil {
				return err
			}
		}
		if err := s.markUnconnected(to); err != nil {
			return err
		}
	}
	return nil
}

// markUnconnected sets the type NET on the paths from GPUs that neither P2P nor shared memory connects to a GPU. Trim
// relies on it.
func (s *System) markUnconnected(to *Node) error {
	for _, from := range s.Nodes[NodeGPU] {
		if from == to {
			continue
		}
		p2p, err := s.UsesP2P(from, to)
		if err != nil {
			return err
		}
		if !p2p && !s.UsesSHM(from, to) {
			from.path(to).Type = PathNET
		}
	}
	return nil
}

// divert makes the path between two nodes go through a third.
func (s *System) divert(from, via, to *Node) error {
	if from.paths[to.Type] == nil || from.paths[via.Type] == nil || via.paths[to.Type] == nil {
		return fmt.Errorf("no path from %s through %s to %s", from.Name(), via.Name(), to.Name())
	}
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
	return nil
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
func (s *System) markP2C() error {
	for _, gpu := range s.Nodes[NodeGPU] {
		cpu, err := s.LocalCPU(gpu)
		if err != nil {
			return err
		}
		nets := s.Nearest(gpu, NodeNET)
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
	return nil
}

// divertNet diverts the paths of GPUs to a port through the port's own GPU (PXN), and both directions through the CPU
// where GPUDirect RDMA is not used. Each diversion may change which GPU is the port's own.
func (s *System) divertNet(net *Node) error {
	for _, gpu := range s.Nodes[NodeGPU] {
		if !s.PXNDisable {
			own, err := s.localGPU(net)
			if err != nil {
				return err
			}
			if err := s.relay(gpu, own, net); err != nil {
				return err
			}
		}
		if err := s.stage(gpu, net); err != nil {
			return err
		}
	}
	return nil
}

// relay makes a GPU reach a port through the port's own GPU if that is better. Only sending is relayed: a port receives
// for its own GPU.
func (s *System) relay(gpu, own, net *Node) error {
	if own == nil || own == gpu {
		return nil
	}
	gdr, err := s.CheckGDR(own, net, true)
	if err != nil {
		return err
	}
	farthest := PathP2C
	if s.PXNC2CDisable || !s.NCCL.Has(nccl.PXNThroughC2C) {
		farthest = PathPXB
	}
	there, here := own.path(net), gpu.path(net)
	if gdr.Mode == GDROff || there.Type > farthest || own.path(gpu).Type > PathNVL || !sameHost(own, gpu) {
		return nil
	}
	if there.BW <= here.BW && here.Type <= PathPXN {
		return nil
	}
	return s.divert(gpu, own, net)
}

// stage makes a GPU and a port exchange data through the memory of the GPU's CPU if they are near enough for GPUDirect
// RDMA but do not use it.
func (s *System) stage(gpu, net *Node) error {
	if gpu.path(net).Type >= PathPHB {
		return nil
	}
	gdr, err := s.CheckGDR(gpu, net, false)
	if err != nil || gdr.Mode != GDROff {
		return err
	}
	cpu, err := s.LocalCPU(gpu)
	if err != nil {
		return err
	}
	if err := s.divert(net, cpu, gpu); err != nil {
		return err
	}
	return s.divert(gpu, cpu, net)
}
