package topo

// NCCL's rules of direct access: whether two GPUs use each other's memory, and a NIC a GPU's. Where they do not, data
// goes through the memory of a CPU, and ComputePaths diverts the path there.

import (
	"cmp"
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
func (s *System) CheckP2P(a, b *Node) P2P {
	path := a.path(b)
	p2p := P2P{Via: -1, Level: s.P2PLevel.or(s.defaultP2PLevel())}
	const bridged = 4 // hops: GPU, its device, the one in between, the other device, GPU
	if path.Hops == bridged && path.Links[1].To.Type == NodeDEV {
		if via := s.gpuOf(path.Links[1].To); via != nil {
			p2p.Via = via.GPU.Rank
		}
	}
	p2p.OK = path.Type <= p2p.Level
	p2p.Read = path.Type == PathNVL && a.GPU.SM == b.GPU.SM && a.GPU.SM == 80
	return p2p
}

// gpuOf returns the first GPU of a device's host that has the device's number, or nil.
func (s *System) gpuOf(dev *Node) *Node {
	return s.first(NodeGPU, func(g *Node) bool { return sameHost(g, dev) && g.GPU.Dev == dev.Dev.Dev })
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
func (s *System) UsesP2P(a, b *Node) bool {
	p2p := s.CheckP2P(a, b)
	return p2p.OK && (p2p.Via != -1 || !s.NetIsFaster(a, b))
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
func (s *System) CheckGDR(gpu, net *Node, send bool) GDR {
	net = s.firstWithID(net)
	switch {
	case !net.Net.GDR:
		return GDR{Why: NICUnable}
	case !gpu.GPU.GDR:
		return GDR{Why: GPUUnable}
	case gpu.GPU.MLOPart != noMLOPart && !s.GDRMLOPart:
		return GDR{Why: Partitioned}
	case send && !s.maySend(gpu):
		return GDR{Why: ReadsOff}
	}
	near := s.proxy(gpu, net)
	level := PathP2C
	if s.GDRC2CDisable {
		level = PathPXB
	}
	gdr := GDR{Near: near, Distance: near.path(net).Type, Level: s.GDRLevel.or(level), Why: NearEnough}
	if gdr.Distance > gdr.Level {
		gdr.Why = TooFar
		return gdr
	}
	gdr.Mode = GDROn
	if near.path(s.LocalCPU(near)).Type == PathC2C && gdr.Distance != PathP2C {
		gdr.Mode = GDRPCI
	}
	return gdr
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
func (s *System) proxy(gpu, net *Node) *Node {
	path := gpu.path(net)
	if path.Type != PathPXN {
		return gpu
	}
	behind := path.Links[1:] // the GPU's own device
	next := behind[max(0, slices.IndexFunc(behind, func(l *Link) bool { return l.To.Type != NodeNVS }))].To
	if next.GPU != nil {
		next = next.GPU.Device
	}
	if next.Type == NodeDEV {
		gpu = cmp.Or(s.gpuOf(next), gpu)
	}
	return gpu
}
