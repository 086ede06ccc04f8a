// Package topo computes how NCCL sees a machine. It reads NCCL's topology XML, builds the graph of GPUs, PCI switches,
// CPUs and NICs, and finds the best path of each pair with its type and bandwidth. Settings name the release of NCCL
// whose rules hold.
//
// The way from a file to an answer:
//
//	doc, err := topo.ReadFile("system.xml")   // the XML tree, see Element
//	sys, err := topo.Build(doc, settings)     // nodes and links
//	err = sys.ComputePaths()                  // paths, with NCCL's diversions
//	path := sys.Path(gpu, nic)
//
// Packages below do the rest: channels searches for NCCL's channels and derives its estimates, tuning holds these
// estimates as data, and detect describes the machine it runs on.
//
// One goroutine computes the paths of a System. Afterwards many may read it. The package does not read the environment,
// opens no device and keeps no state between calls.
//
// Bandwidths are GB/s (1e9 B/s) in float32. They are computed in NCCL's order, because NCCL decides ties by exact
// comparison.
//
// docs/COMMANDS.md describes the commands that show all this.
package topo

import (
	"fmt"
	"slices"
	"strconv"
)

// Limits of NCCL 2.30.7 on a system.
const (
	MaxNodes = 640 // of one type

	maxHosts = 128 // what an ID has room for
)

// System is the graph of one machine, or of several hosts in one NVLink domain.
type System struct {
	Nodes      [numNodeTypes][]*Node // by type, in the order NCCL creates them
	HostHashes []uint64              // one per host, in file order
	Inter      bool                  // the communicator has ranks beyond this system; set by Trim

	Settings // as given to Build
}

// Node is one vertex. Of the pointers below Links, the one that belongs to the type is set.
type Node struct {
	Type  NodeType
	ID    ID
	Index int    // position in System.Nodes[Type]
	Links []Link // widest first, but the PCI uplink last; the order decides ties between paths

	GPU *GPU
	Dev *Device
	PCI *PCI
	CPU *CPU
	Net *Net // of NodeNET, NodeGIN and NodeRMA

	paths  [numNodeTypes][]Path // to each node of a type; nil when no search has come near
	queued bool                 // in a search
}

// Name is the node as NCCL prints it: TYPE/system-local in hexadecimal.
func (n *Node) Name() string {
	return fmt.Sprintf("%s/%x-%x", n.Type, n.ID.System(), n.ID.Local())
}

// Link leads to another node. Links come in pairs, but the two may differ in bandwidth, and a file may describe only
// one.
type Link struct {
	Type LinkType
	BW   float32 // GB/s
	To   *Node
}

// ID identifies a node among those of its type: the host's number in the upper 8 bits, and below it the PCI address
// (the NUMA number of a CPU, the device number of a network port).
type ID int64

const localIDBits = 56

func makeID(system int, local int64) ID {
	return ID(int64(system)<<localIDBits + local&(1<<localIDBits-1))
}

// System is the number of the host.
func (id ID) System() int { return int(id >> localIDBits) }

// Local is the part that is unique within the host.
func (id ID) Local() int64 { return int64(id) & (1<<localIDBits - 1) }

// numa is the NUMA number in a CPU's ID. It is negative where the machine has none, as in many virtual machines.
func (id ID) numa() int64 { return int64(id) << (64 - localIDBits) >> (64 - localIDBits) }

// GPU is one rank of a communicator.
type GPU struct {
	Rank    int   `json:"rank"`
	Dev     int   `json:"dev"` // NVML index
	SM      int   `json:"sm"`  // compute capability times 10: 90 for Hopper
	GDR     bool  `json:"-"`
	MLOPart int   `json:"-"` // memory partition of a split GPU, or -1
	Device  *Node `json:"-"` // NodeDEV
}

// Device is a GPU device.
type Device struct {
	PCIID uint64 // vendor, device, subsystem vendor, subsystem device; 16 bits each
	Dev   int    // NVML index
	SM    int
	NGPUs int // ranks on this device
}

// PCI is a PCI switch.
type PCI struct {
	PCIID uint64 // vendor, device, subsystem vendor, subsystem device; 16 bits each
}

// Net is a network port.
type Net struct {
	Name    string  `json:"-"`          // as the net plugin calls it, "" if the file does not say
	Dev     int     `json:"dev"`        // number the net plugin gives it
	GUID    uint64  `json:"-"`          // ports with one GUID share an adapter; the node's ID when the file has none
	Port    int     `json:"port"`       // of the adapter
	Rail    int     `json:"-"`          // which network of a rail-optimised cluster it is on; -1 unknown
	Plane   int     `json:"-"`          // which of several networks whose ports never talk to each other; -1 unknown
	BW      Float32 `json:"gbps"`       // GB/s
	Latency Float32 `json:"latency_us"` // us
	GDR     bool    `json:"gdr"`        // GPUDirect RDMA
	Coll    bool    `json:"-"`          // in-network collectives

	ConnectX8 bool `json:"-"`
	MaxConn   int  `json:"-"`
	LocalGPU  int  `json:"-"` // index of the GPU that is served first by this port, -1 none; 0 before ComputePaths
}

// find returns the first node of a type with this ID, or nil.
func (s *System) find(t NodeType, id ID) *Node {
	return s.first(t, func(n *Node) bool { return n.ID == id })
}

// first returns the first node of a type for which is holds, or nil.
func (s *System) first(t NodeType, is func(*Node) bool) *Node {
	if i := slices.IndexFunc(s.Nodes[t], is); i >= 0 {
		return s.Nodes[t][i]
	}
	return nil
}

// firstWithID returns the first node with the type and ID of n. NCCL looks ports up by ID, and a broken file may give
// several ports one device number.
func (s *System) firstWithID(n *Node) *Node {
	if first := s.find(n.Type, n.ID); first != nil {
		return first
	}
	return n
}

// remove takes a node and all links to it out of the system.
func (s *System) remove(gone *Node) {
	for _, nodes := range s.Nodes {
		for _, n := range nodes {
			n.Links = slices.DeleteFunc(n.Links, func(l Link) bool { return l.To == gone })
		}
	}
	rest := slices.Delete(s.Nodes[gone.Type], gone.Index, gone.Index+1)
	for i, n := range rest {
		n.Index = i
	}
	s.Nodes[gone.Type] = rest
}

// connect adds bandwidth to the link from one node to another, making it if need be, and keeps the links of the node in
// descending order of bandwidth.
func connect(from, to *Node, t LinkType, bw float32) {
	i := slices.IndexFunc(from.Links, func(l Link) bool { return l.To == to && l.Type == t })
	if i < 0 {
		i = len(from.Links)
		from.Links = append(from.Links, Link{Type: t, To: to})
	}
	from.Links[i].BW += bw
	for ; i > 0 && from.Links[i-1].BW < from.Links[i].BW; i-- {
		from.Links[i-1], from.Links[i] = from.Links[i], from.Links[i-1]
	}
}

func connectBoth(a, b *Node, t LinkType, bw float32) {
	connect(a, b, t, bw)
	connect(b, a, t, bw)
}

// PathType tells what a path goes through, from best to worst. The order is NCCL's and is what NCCL_P2P_LEVEL and
// NCCL_NET_GDR_LEVEL compare with.
type PathType int8

const (
	PathLOC PathType = iota // the node itself
	PathNVL                 // NVLink, directly or through NVSwitch
	PathNVB                 // NVLink with one GPU in between
	PathC2C                 // chip-to-chip link of a GPU and its CPU
	PathPIX                 // at most one PCI switch
	PathPXB                 // several PCI switches, no CPU
	PathP2C                 // C2C to the CPU, then PCI to the NIC
	PathPXN                 // NVLink to another GPU that is close to the NIC
	PathPHB                 // through a CPU
	PathSYS                 // through the link between CPUs
	PathNET                 // only over the network
	PathDIS                 // no path
)

var pathTypeNames = [...]string{"LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS"}

func (t PathType) String() string { return pathTypeNames[t] }

// MarshalText uses NCCL's names.
func (t PathType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads them.
func (t *PathType) UnmarshalText(text []byte) error {
	for k, name := range pathTypeNames {
		if name == string(text) {
			*t = PathType(k)
			return nil
		}
	}
	return fmt.Errorf("unknown path type %q (known: %v)", text, pathTypeNames)
}

// LinkType is the kind of one link.
type LinkType int8

const (
	LinkLOC LinkType = iota // within a device, and between PCI switches joined by a pcilink
	LinkNVL                 // NVLink
	LinkC2C                 // NVLink-C2C
	LinkPCI                 // PCI
	LinkSYS                 // between the CPUs of a host
	LinkNET                 // NIC to its network port
)

var linkTypeNames = [...]string{"LOC", "NVL", "C2C", "PCI", "SYS", "NET"}

func (t LinkType) String() string { return linkTypeNames[t] }

// pathType is the type of a path that is this link alone. The port of a NIC does not make a path worse, since paths are
// about the way from a GPU to the NIC.
func (t LinkType) pathType() PathType {
	return [...]PathType{PathLOC, PathNVL, PathC2C, PathPIX, PathSYS, PathLOC}[t]
}

// NodeType is the kind of a node.
type NodeType int8

const (
	NodeGPU NodeType = iota // a rank on a GPU
	NodePCI                 // PCI switch
	NodeNVS                 // all NVSwitches of an NVLink domain, as one
	NodeCPU                 // NUMA domain
	NodeNIC                 // PCI device of a NIC
	NodeNET                 // network port of a NIC
	NodeGIN                 // network port for GPU-initiated networking
	NodeRMA                 // network port for one-sided operations
	NodeDEV                 // GPU device: owns the links of its GPU nodes
	NodeCXB                 // C2C of a GPU that is split into two devices
	numNodeTypes
)

var nodeTypeNames = [...]string{"GPU", "PCI", "NVS", "CPU", "NIC", "NET", "GIN", "RMA", "DEV", "CXB"}

func (t NodeType) String() string { return nodeTypeNames[t] }

// Float32 is written with the nine digits that tell any two float32 apart, so that it can be compared as text.
type Float32 float32

// MarshalJSON writes the nine digits.
func (f Float32) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(f), 'g', 9, 32), nil
}

// Path is the way from one node to another. The zero value is not a path; where there is none the type is PathDIS.
type Path struct {
	Type  PathType `json:"type"`
	Hops  int      `json:"hops"` // links passed
	BW    Float32  `json:"gbps"` // GB/s, of the narrowest link
	Links []*Link  `json:"-"`    // in order; each leads to the next node, the last one to the target
}

var noPath = Path{Type: PathDIS}

// Path returns the best path between two nodes of the system. Targets may be of type CPU, DEV, GPU, NET, GIN, RMA and
// NVS; for others, and before ComputePaths, there is none.
func (s *System) Path(from, to *Node) Path { return *from.path(to) }

// path returns the path to a target. The caller may change it, unless no search has reached the target.
func (n *Node) path(to *Node) *Path {
	if n.paths[to.Type] == nil {
		p := noPath
		return &p
	}
	return &n.paths[to.Type][to.Index]
}

// Whole returns the lowest rank of the system and the number of ranks: a communicator of all GPUs and no others.
func (s *System) Whole() (rank, ranks int) {
	all := s.Ranks()
	if len(all) > 0 {
		rank = slices.Min(all)
	}
	return rank, len(all)
}

// Ranks lists the ranks of the system in the order of its GPUs.
func (s *System) Ranks() []int {
	ranks := []int{}
	for _, g := range s.Nodes[NodeGPU] {
		ranks = append(ranks, g.GPU.Rank)
	}
	return ranks
}

// byRank returns the first GPU with a rank, or nil.
func (s *System) byRank(rank int) *Node {
	return s.first(NodeGPU, func(g *Node) bool { return g.GPU.Rank == rank })
}

// Totals describes the system that the channel search starts from.
type Totals struct {
	Inter   int     `json:"inter"`
	MaxBW   Float32 `json:"maxBw"`
	TotalBW Float32 `json:"totalBw"`
	GPUs    int     `json:"gpus"`
}

// Totals computes the bandwidths that bound NCCL's channel search. MaxBW bounds one channel: it is the widest path
// from any device to another, or to the network if the communicator has ranks beyond the system. TotalBW bounds all
// channels together: it is the most that the links of one device carry.
func (s *System) Totals() *Totals {
	t := &Totals{GPUs: len(s.Nodes[NodeGPU])}
	if s.Inter {
		t.Inter = 1
	} else if t.GPUs == 1 {
		t.MaxBW, t.TotalBW = bwLocal, bwLocal
		return t
	}
	target := NodeDEV
	if s.Inter {
		target = NodeNET
	}
	for _, dev := range s.Nodes[NodeDEV] {
		for _, p := range dev.paths[target] {
			if p.Hops > 0 {
				t.MaxBW = max(t.MaxBW, p.BW)
			}
		}
		bw := dev.linksByType()
		t.TotalBW = max(t.TotalBW, Float32(bw[LinkNVL]), Float32(bw[LinkPCI]))
	}
	return t
}
