package topo

import "fmt"

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
