package topo

import (
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo/internal/cnum"
)

// NIC is what a net plugin tells NCCL about one network port.
type NIC struct {
	Name string // mlx5_0, eth0
	// the plugin of NCCL that would drive it: "IB" (verbs, RoCE too) or "Socket"; "" when read from a file
	Plugin     string
	PCIPath    string  // directory of the device in /sys; "" for a virtual NIC, and when read from a file
	BusID      string  // PCI address of the device; "" for a virtual NIC
	GUID       uint64  // ports with one GUID are ports of one adapter
	Port       int     // from 1 for IB, counting the functions of one adapter; 0 for Socket
	Mbps       int     // Mbit/s
	Latency    float64 // microseconds; 0: not stated, as with NCCL's own plugins
	MaxComms   int     // connections
	PtrSupport PtrSupport

	// InUse says that NCCL's choice falls on this port: sockets are for machines without an active verbs device.
	InUse bool
}

// PtrSupport tells which memory a NIC can send from and receive into. The values are NCCL's.
type PtrSupport uint8

const (
	PtrHost   PtrSupport = 1
	PtrCUDA   PtrSupport = 2 // GPUDirect RDMA by a peer-memory kernel module
	PtrDMABUF PtrSupport = 4 // GPUDirect RDMA by DMA-BUF
)

// GDR reports whether the NIC reaches GPU memory by itself.
func (p PtrSupport) GDR() bool { return p&(PtrCUDA|PtrDMABUF) != 0 }

func (p PtrSupport) String() string {
	var names []string
	for _, bit := range []struct {
		ptr  PtrSupport
		name string
	}{{PtrHost, "host"}, {PtrCUDA, "cuda"}, {PtrDMABUF, "dmabuf"}} {
		if p&bit.ptr != 0 {
			names = append(names, bit.name)
		}
	}
	return strings.Join(names, "+")
}

// NICs lists the network ports of a topology file, in file order. What the file leaves out is 0 or "".
func (d *Document) NICs() []NIC {
	var nics []NIC
	var walk func(e *Element, busID string)
	walk = func(e *Element, busID string) {
		switch e.Name {
		case "cpu":
			busID = ""
		case "pci":
			busID, _ = e.Attr("busid")
		case "net":
			nics = append(nics, nicOf(e, busID))
		}
		for _, c := range e.Children {
			walk(c, busID)
		}
	}
	walk(d.Root, "")
	return nics
}

func nicOf(net *Element, busID string) NIC {
	name, _ := net.Attr("name")
	guid, _ := net.Attr("guid")
	latency, _ := net.Attr("latency")
	n := NIC{
		Name: name, BusID: busID, GUID: cnum.Uint(guid, 0), Port: net.Int("port", 0), Mbps: net.Int("speed", 0),
		Latency: float64(cnum.Float(latency)), MaxComms: net.Int("maxconn", 0), PtrSupport: PtrHost,
		InUse: net.Int("net", 1) != 0,
	}
	if net.Int("gdr", 0) != 0 {
		n.PtrSupport |= PtrCUDA // by which means, the file does not say
	}
	return n
}
