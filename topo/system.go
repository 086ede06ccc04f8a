package topo

import (
	"fmt"
	"slices"
)

// Limits of NCCL 2.30.7 on a system.
const (
	MaxNodes = 640 // of one type
	MaxLinks = 576 // of one node

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

func (s *System) add(n *Node) error {
	if len(s.Nodes[n.Type]) == MaxNodes {
		return fmt.Errorf("more than %d nodes of type %s", MaxNodes, n.Type)
	}
	n.Index = len(s.Nodes[n.Type])
	s.Nodes[n.Type] = append(s.Nodes[n.Type], n)
	return nil
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
func connect(from, to *Node, t LinkType, bw float32) error {
	i := slices.IndexFunc(from.Links, func(l Link) bool { return l.To == to && l.Type == t })
	if i < 0 {
		if len(from.Links) == MaxLinks {
			return fmt.Errorf("%s has more than %d links", from.Name(), MaxLinks)
		}
		i = len(from.Links)
		from.Links = append(from.Links, Link{Type: t, To: to})
	}
	from.Links[i].BW += bw
	for ; i > 0 && from.Links[i-1].BW < from.Links[i].BW; i-- {
		from.Links[i-1], from.Links[i] = from.Links[i], from.Links[i-1]
	}
	return nil
}
