package topo

import "fmt"

// GDRMode says how a NIC reaches the memory of a GPU. The numbers are NCCL's.
type GDRMode int

const (
	GDROff GDRMode = iota // through host memory
	GDROn                 // GPUDirect RDMA
	GDRPCI                // GPUDirect RDMA with the PCI mapping, past the C2C link of the GPU
)

// CheckGDR decides on GPUDirect RDMA between a GPU and a network port, for sending (the NIC reads the GPU) or receiving.
func (s *System) CheckGDR(gpu, net *Node, send bool, set Settings) (GDRMode, error) {
	net = s.firstWithID(net)
	if !net.Net.GDR || !gpu.GPU.GDR || gpu.GPU.MLOPart != noMLOPart && !set.GDRMLOPart {
		return GDROff, nil
	}
	if send && !s.maySend(gpu, set) {
		return GDROff, nil
	}
	near, err := s.Proxy(gpu, net)
	if err != nil {
		return GDROff, err
	}
	level := PathP2C
	if set.GDRC2CDisable {
		level = PathPXB
	}
	distance := near.path(net).Type
	if distance > set.GDRLevel.or(level) {
		return GDROff, nil
	}
	cpu, err := s.LocalCPU(near)
	if err != nil {
		return GDROff, err
	}
	if near.path(cpu).Type == PathC2C && distance != PathP2C {
		return GDRPCI, nil
	}
	return GDROn, nil
}

// maySend: before Ampere, reading GPU memory over PCI is slow, and by default not done if PCI carries the traffic
// between GPUs too.
func (s *System) maySend(gpu *Node, set Settings) bool {
	switch {
	case set.GDRRead == ToggleOff:
		return false
	case set.GDRRead == ToggleOn, gpu.GPU.SM >= 80, len(s.Nodes[NodeGPU]) == 1:
		return true
	}
	for _, peer := range s.Nodes[NodeGPU] {
		if peer != gpu && gpu.path(peer).Type == PathNVL {
			return true
		}
	}
	return false
}

// Proxy returns the GPU that talks to a network port for this one: the GPU itself, or the one that a PXN path goes
// through.
func (s *System) Proxy(gpu, net *Node) (*Node, error) {
	path := gpu.path(net)
	if path.Type != PathPXN {
		return gpu, nil
	}
	i := 1 // 0 is the GPU's own device
	for n := path.node(i); n != nil && n.Type == NodeNVS; n = path.node(i) {
		i++
	}
	near := path.node(i)
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
