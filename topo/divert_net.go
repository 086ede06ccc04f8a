package topo

import "github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"

// markP2C gives GPUs on C2C the type P2C for their nearest ports, if those hang off the CPU. Farther ports keep their
// type, so that PXN is preferred for them.
func (s *System) markP2C() error {
	for _, gpu := range s.Nodes[NodeGPU] {
		cpu, err := s.LocalCPU(gpu)
		if err != nil {
			return err
		}
		nets := s.local(gpu, NodeNET)
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
