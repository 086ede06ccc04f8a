package topo

import "fmt"

// SetPaths finds the best path from every node to every CPU, DEV, GPU, NET, GIN, RMA and NVS node, before any diversion
// (stage "raw"). It forgets earlier paths.
func (s *System) SetPaths(set Settings) error {
	for _, nodes := range s.Nodes {
		for _, n := range nodes {
			n.paths = [numNodeTypes][]Path{}
		}
	}
	search := newSearch(s, set.Rule, set.NVBDisable)
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
// peer-to-peer, and between GPUs and NICs without GPUDirect RDMA, through the CPU; to NICs that another GPU is nearer to,
// through that GPU (PXN). With a communicator, GPUs that neither P2P nor shared memory connects get a path of type NET.
func (s *System) ComputePaths(set Settings, comm *Comm) error {
	if err := s.SetPaths(set); err != nil {
		return err
	}
	if err := s.divertGPUs(set, comm); err != nil {
		return err
	}
	if err := s.markP2C(); err != nil {
		return err
	}
	for _, net := range s.Nodes[NodeNET] {
		if err := s.divertNet(net, set); err != nil {
			return err
		}
	}
	for _, net := range s.Nodes[NodeNET] {
		gpu, err := s.LocalGPU(net, set.NetDevs)
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
func (s *System) divertGPUs(set Settings, comm *Comm) error {
	gpus := s.Nodes[NodeGPU]
	for _, to := range gpus {
		for _, from := range gpus {
			p2p, err := s.CheckP2P(from, to, set, comm)
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
			if err := divert(from, cpu, to); err != nil {
				return err
			}
		}
		if comm == nil {
			continue
		}
		for _, from := range gpus {
			if from == to {
				continue
			}
			p2p, err := s.UsesP2P(from, to, set, comm)
			if err != nil {
				return err
			}
			if !p2p && !s.UsesSHM(from, to, set) {
				from.path(to).Type = PathNET
			}
		}
	}
	return nil
}

// markP2C gives GPUs on C2C the type P2C for their nearest ports, if those hang off the CPU. Farther ports keep their
// type, so that PXN is preferred for them.
func (s *System) markP2C() error {
	for _, gpu := range s.Nodes[NodeGPU] {
		cpu, err := s.LocalCPU(gpu)
		if err != nil {
			return err
		}
		for _, net := range s.local(gpu, NodeNET) {
			if mergeTypes(gpu.path(cpu).Type, net.path(cpu).Type) != PathP2C {
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
// where GPUDirect RDMA is not used.
func (s *System) divertNet(net *Node, set Settings) error {
	var own *Node // the port's GPU, looked up again when paths have changed
	changed := true
	for _, gpu := range s.Nodes[NodeGPU] {
		if changed && !set.PXNDisable {
			var err error
			if own, err = s.LocalGPU(net, set.NetDevs); err != nil {
				return err
			}
		}
		relayed, err := s.relay(gpu, own, net, set)
		if err != nil {
			return err
		}
		staged, err := s.stage(gpu, net, set)
		if err != nil {
			return err
		}
		changed = relayed || staged
	}
	return nil
}

// relay makes a GPU reach a port through the port's own GPU if that is better. Only sending is relayed: a port receives
// for its own GPU.
func (s *System) relay(gpu, own, net *Node, set Settings) (done bool, err error) {
	if own == nil || own == gpu {
		return false, nil
	}
	gdr, err := s.CheckGDR(own, net, true, set)
	if err != nil {
		return false, err
	}
	farthest := PathP2C
	if set.PXNC2CDisable {
		farthest = PathPXB
	}
	there, here := own.path(net), gpu.path(net)
	if gdr == GDROff || there.Type > farthest || own.path(gpu).Type > PathNVL || !sameHost(own, gpu) {
		return false, nil
	}
	if there.BW <= here.BW && here.Type <= PathPXN {
		return false, nil
	}
	return true, divert(gpu, own, net)
}

// stage makes a GPU and a port exchange data through the memory of the GPU's CPU if they are near enough for GPUDirect
// RDMA but do not use it.
func (s *System) stage(gpu, net *Node, set Settings) (done bool, err error) {
	if gpu.path(net).Type >= PathPHB {
		return false, nil
	}
	gdr, err := s.CheckGDR(gpu, net, false, set)
	if err != nil || gdr != GDROff {
		return false, err
	}
	cpu, err := s.LocalCPU(gpu)
	if err != nil {
		return false, err
	}
	if err := divert(net, cpu, gpu); err != nil {
		return false, err
	}
	return true, divert(gpu, cpu, net)
}

// divert makes the path between two nodes go through a third.
func divert(from, via, to *Node) error {
	if from.paths[to.Type] == nil || from.paths[via.Type] == nil || via.paths[to.Type] == nil {
		return fmt.Errorf("no way from %s through %s to %s", from.Name(), via.Name(), to.Name())
	}
	a, b := from.path(via), via.path(to)
	p := Path{
		Type:  mergeTypes(a.Type, b.Type),
		Hops:  a.Hops + b.Hops,
		BW:    min(a.BW, b.BW),
		first: a.join(b),
	}
	if via.Type == NodeGPU {
		p.Type = PathPXN
	}
	*from.path(to) = p
	return nil
}

// mergeTypes is the type of two paths in a row.
func mergeTypes(a, b PathType) PathType {
	if min(a, b) == PathC2C && max(a, b) == PathPHB {
		return PathP2C
	}
	return max(a, b)
}
