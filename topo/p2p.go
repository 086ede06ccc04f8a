package topo

import (
	"fmt"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// P2P says how two GPUs can use each other's memory.
type P2P struct {
	OK     bool // peer-to-peer is used: possible, and the path is not farther than NCCL_P2P_LEVEL
	Read   bool // better by reading than by writing
	Via    int  // rank of the GPU in between, or -1
	Driver bool // CUDA peer access works, whatever the distance

	Level PathType // farthest path that peer-to-peer is used for
	Why   Reason   // what OK follows from
}

// CheckP2P decides on peer-to-peer between two GPUs. Without a communicator all GPUs count as one host's. The error is that
// the driver denies access between GPUs that NVLink connects, which NCCL takes for a broken machine.
func (s *System) CheckP2P(a, b *Node, set Settings, comm *Comm) (P2P, error) {
	p2p := P2P{Via: -1}
	path := a.path(b)
	bridge, err := s.bridge(a, path)
	if err != nil {
		return p2p, err
	}
	if bridge != nil {
		p2p.Via = bridge.GPU.Rank
	}
	p2p.Level = set.P2PLevel.or(s.defaultP2PLevel())
	p2p.OK, p2p.Why = path.Type <= p2p.Level, NearEnough
	if !p2p.OK {
		p2p.Why = TooFar
	}
	p2p.Read = path.Type == PathNVL && a.GPU.SM == b.GPU.SM && a.GPU.SM == 80
	p2p.Driver = true

	if !s.asksDriver(a, b, set, comm) {
		return p2p, nil
	}
	p2p.Driver = comm.access(a, b)
	if !p2p.OK {
		return p2p, nil
	}
	if bridge != nil {
		p2p.OK = comm.access(a, bridge) && comm.access(bridge, b)
	} else {
		p2p.OK = p2p.Driver
	}
	if !p2p.OK {
		p2p.Why = DriverDenies
	}
	if !p2p.OK && set.IgnoreDisabledP2P == 0 && path.Type <= PathNVB {
		return p2p, fmt.Errorf("the driver denies P2P between the NVLink-connected GPUs %d and %d "+
			"(NCCL_IGNORE_DISABLED_P2P=1 goes on without)", a.GPU.Dev, b.GPU.Dev)
	}
	return p2p, nil
}

// bridge returns the GPU that an NVLink path of two GPUs goes through, or nil.
func (s *System) bridge(gpu *Node, path *Path) (*Node, error) {
	const hops = 4 // GPU, its device, the one in between, the other device, GPU
	if path.Hops != hops {
		return nil, nil
	}
	mid := path.node(1)
	if mid.Type != NodeDEV {
		return nil, nil
	}
	via := s.byDevice(mid.ID.System(), mid.Dev.Dev)
	if via == nil {
		return nil, fmt.Errorf("path of %s goes through device %d, which has no rank", gpu.Name(), mid.Dev.Dev)
	}
	return via, nil
}

// defaultP2PLevel: not through a CPU, except for a pair of GPUs on AMD.
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

// asksDriver says whether the driver's word counts. It knows only pairs of this host.
func (s *System) asksDriver(a, b *Node, set Settings, comm *Comm) bool {
	if set.IgnoreDisabledP2P == 2 || a.GPU.Device == b.GPU.Device {
		return false
	}
	if comm == nil {
		return true
	}
	me := s.byRank(comm.Rank)
	return me != nil && sameHost(a, me) && sameHost(a, b)
}

func (c *Comm) access(a, b *Node) bool {
	return c == nil || c.PeerAccess == nil || c.PeerAccess(a.GPU.Dev, b.GPU.Dev)
}

func sameHost(a, b *Node) bool { return a.ID.System() == b.ID.System() }

// NetIsFaster says whether two GPUs of one system had better talk over the network: each reaches a port through PCI
// switches alone, at more bandwidth than they reach each other.
func (s *System) NetIsFaster(a, b *Node, set Settings) bool {
	if set.NetDisableIntra {
		return false
	}
	direct := a.path(b).BW
	return s.nearNetBW(a) > direct && s.nearNetBW(b) > direct
}

func (s *System) nearNetBW(gpu *Node) float32 {
	var bw float32
	for i := range gpu.paths[NodeNET] {
		if p := &gpu.paths[NodeNET][i]; p.Type <= PathPXB {
			bw = max(bw, p.BW)
		}
	}
	return bw
}

// UsesP2P says whether the P2P transport connects two GPUs.
func (s *System) UsesP2P(a, b *Node, set Settings, comm *Comm) (bool, error) {
	p2p, err := s.CheckP2P(a, b, set, comm)
	if err != nil || !p2p.OK {
		return false, err
	}
	return p2p.Via != -1 || !s.NetIsFaster(a, b, set), nil
}

// UsesSHM says whether the shared-memory transport can connect two GPUs. It is used where P2P is not.
func (s *System) UsesSHM(a, b *Node, set Settings) bool {
	return !set.SHMDisable && !s.NetIsFaster(a, b, set) && sameHost(a, b)
}
