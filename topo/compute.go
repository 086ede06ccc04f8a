package topo

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
func (s *System) ComputePaths() error { return s.computePaths(true) }

// computePaths makes paths of type NET only if there is a communicator.
func (s *System) computePaths(comm bool) error {
	if err := s.SetPaths(); err != nil {
		return err
	}
	if err := s.divertGPUs(comm); err != nil {
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
func (s *System) divertGPUs(comm bool) error {
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
		if !comm {
			continue
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
