package topo

// NCCL's rules of direct access: whether two GPUs use each other's memory, and a NIC a GPU's. Where they do not, data
// goes through the memory of a CPU, and ComputePaths diverts the path there.

import (
	"fmt"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// P2P says how two GPUs can use each other's memory. It assumes that the driver lets them.
type P2P struct {
	OK   bool // peer-to-peer is used: the path is not farther than Level
	Read bool // better by reading than by writing
	Via  int  // rank of the GPU in between, or -1

	Level PathType // farthest path that peer-to-peer is used for: NCCL_P2P_LEVEL, or the machine's
}

// CheckP2P decides on peer-to-peer between two GPUs.
func (s *System) CheckP2P(a, b *Node) (P2P, error) {
	path := a.path(b)
	p2p := P2P{Via: -1, Level: s.P2PLevel.or(s.defaultP2PLevel())}
	bridge, err := s.bridge(a, path)
	if err != nil {
		return p2p, err
	}
	if bridge != nil {
		p2p.Via = bridge.GPU.Rank
	}
	p2p.OK = path.Type <= p2p.Level
	p2p.Read = path.Type == PathNVL && a.GPU.SM == b.GPU.SM && a.GPU.SM == 80
	return p2p, nil
}

// bridge returns the GPU that an NVLink path of two GPUs goes through, or nil.
func (s *System) bridge(gpu *Node, path *Path) (*Node, error) {
	const hops = 4 // GPU, its device, the one in between, the other device, GPU
	if path.Hops != hops {
		return nil, nil
	}
	mid := path.Links[1].To
	if mid.Type != NodeDEV {
		return nil, nil
	}
	via := s.byDevice(mid.ID.System(), mid.Dev.Dev)
	if via == nil {
		return nil, fmt.Errorf("path of %s goes through device %d, which has no rank", gpu.Name(), mid.Dev.Dev)
	}
	return via, nil
}

// defaultP2PLevel excludes paths through a CPU, except for a pair of GPUs on AMD.
func (s *System) defaultP2PLevel() PathType {
	cpu := s.Nodes[NodeCPU][0].CPU
	if !s.NCCL.Has(nccl.P2PNotThroughCPUs) {
		if cpu.Arch == ArchARM || cpu.Arch == ArchX86 && (cpu.Vendor == VendorIntel || cpu.Vendor == VendorZhaoxin) {
			return PathPXB
		}
		return PathSYS
	}
	if cpu.Arch == ArchX86 && cpu.Vendor == VendorAMD && len(s.Nodes[NodeDEV]) <= 2 {
		return PathSYS
	}
	return PathPXB
}

func sameHost(a, b *Node) bool { return a.ID.System() == b.ID.System() }

// NetIsFaster reports whether two GPUs of one system communicate faster over the network: both reach a port through PCI
// switches alone, at more bandwidth than they reach each other.
func (s *System) NetIsFaster(a, b *Node) bool {
	if s.NetDisableIntra {
		return false
	}
	direct := a.path(b).BW
	return s.nearNetBW(a) > direct && s.nearNetBW(b) > direct
}

func (s *System) nearNetBW(gpu *Node) Float32 {
	var bw Float32
	for i := range gpu.paths[NodeNET] {
		if p := &gpu.paths[NodeNET][i]; p.Type <= PathPXB {
			bw = max(bw, p.BW)
		}
	}
	return bw
}

// UsesP2P reports whether the P2P transport connects two GPUs.
func (s *System) UsesP2P(a, b *Node) (bool, error) {
	p2p, err := s.CheckP2P(a, b)
	if err != nil || !p2p.OK {
		return false, err
	}
	return p2p.Via != -1 || !s.NetIsFaster(a, b), nil
}

// UsesSHM reports whether the shared-memory transport can connect two GPUs. NCCL uses it where it does not use P2P.
func (s *System) UsesSHM(a, b *Node) bool {
	return !s.SHMDisable && !s.NetIsFaster(a, b) && sameHost(a, b)
}

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
