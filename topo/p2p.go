package topo

import (
	"fmt"

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
