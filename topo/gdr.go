package topo

import (
	"fmt"
	"slices"
)

// GDRMode says how a NIC reaches the memory of a GPU. The numbers are NCCL's.
type GDRMode int

const (
	GDROff GDRMode = iota // through host memory
	GDROn                 // GPUDirect RDMA
	GDRPCI                // GPUDirect RDMA with the PCI mapping, past the C2C link of the GPU
)

// Reason is why GPUDirect RDMA is on or off.
type Reason int

const (
	NearEnough  Reason = iota // the path is not farther than the level
	TooFar                    // the path is farther
	NICUnable                 // the net plugin does not offer GPUDirect RDMA on the port
	GPUUnable                 // the GPU or its driver does not
	Partitioned               // the GPU has memory partitions
	ReadsOff                  // a NIC should not read this GPU
)

// GDR is a decision on GPUDirect RDMA with its reason.
type GDR struct {
	Mode GDRMode
	Why  Reason
	// If Why is NearEnough or TooFar: the distance of Near, the GPU itself or the one that a PXN path goes through,
	// to the port, and the farthest one allowed.
	Near     *Node
	Distance PathType
	Level    PathType
}

// CheckGDR decides on GPUDirect RDMA between a GPU and a network port, for sending (the NIC reads the GPU) or
// receiving.
func (s *System) CheckGDR(gpu, net *Node, send bool) (GDR, error) {
	net = s.firstWithID(net)
	switch {
	case !net.Net.GDR:
		return GDR{Why: NICUnable}, nil
	case !gpu.GPU.GDR:
		return GDR{Why: GPUUnable}, nil
	case gpu.GPU.MLOPart != noMLOPart && !s.GDRMLOPart:
		return GDR{Why: Partitioned}, nil
	case send && !s.maySend(gpu):
		return GDR{Why: ReadsOff}, nil
	}
	near, err := s.proxy(gpu, net)
	if err != nil {
		return GDR{}, err
	}
	level := PathP2C
	if s.GDRC2CDisable {
		level = PathPXB
	}
	gdr := GDR{Near: near, Distance: near.path(net).Type, Level: s.GDRLevel.or(level), Why: NearEnough}
	if gdr.Distance > gdr.Level {
		gdr.Why = TooFar
		return gdr, nil
	}
	cpu, err := s.LocalCPU(near)
	if err != nil {
		return GDR{}, err
	}
	gdr.Mode = GDROn
	if near.path(cpu).Type == PathC2C && gdr.Distance != PathP2C {
		gdr.Mode = GDRPCI
	}
	return gdr, nil
}

// maySend reports whether a NIC may read the GPU's memory. Before Ampere that is slow over PCI. NCCL then avoids it by
// default if PCI also carries the traffic between GPUs.
func (s *System) maySend(gpu *Node) bool {
	switch {
	case s.GDRRead == ToggleOff:
		return false
	case s.GDRRead == ToggleOn, gpu.GPU.SM >= 80, len(s.Nodes[NodeGPU]) == 1:
		return true
	}
	return slices.ContainsFunc(s.Nodes[NodeGPU], func(peer *Node) bool {
		return peer != gpu && gpu.path(peer).Type == PathNVL
	})
}

// proxy returns the GPU that talks to a network port for this one: the GPU itself, or the one that a PXN path goes
// through.
func (s *System) proxy(gpu, net *Node) (*Node, error) {
	path := gpu.path(net)
	if path.Type != PathPXN {
		return gpu, nil
	}
	var near *Node
	for _, l := range path.Links[1:] { // behind the GPU's own device
		if near = l.To; near.Type != NodeNVS {
			break
		}
	}
	if near != nil && near.Type == NodeDEV {
		for _, l := range near.Links {
			if l.To.Type == NodeGPU {
				near = l.To
				break
			}
		}
	}
	if near == nil || near.Type != NodeGPU {
		return nil, fmt.Errorf("path from %s to %s goes through no GPU", gpu.Name(), net.Name())
	}
	return s.byDevice(near.ID.System(), near.GPU.Dev), nil
}
