package topo

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/internal/cnum"
)

// Build makes the graph of a topology, as NCCL does: devices that have no rank or device number are left out, two-level
// BCM switches become one, and links are put in the order that decides ties. The error joins a *SyntaxError for each
// place in the file (up to 20, by line) that NCCL could not use.
func Build(doc *Document, set Settings) (*System, error) {
	b := &builder{doc: doc, sys: &System{Settings: set}}
	for _, c := range doc.Root.Children {
		if c.Name == "cpu" {
			b.cpu(c)
		}
	}
	if len(b.sys.Nodes[NodeCPU]) == 0 {
		b.fail(doc.Root, "no <cpu> element")
	}
	b.links(doc.Root)
	if err := b.err(); err != nil {
		return nil, err
	}
	if err := finish(b.sys); err != nil {
		return nil, fmt.Errorf("%s: %w", doc.File, err)
	}
	return b.sys, nil
}

// finish does what needs all nodes.
func finish(s *System) error {
	if err := flattenBCM(s); err != nil {
		return err
	}
	if err := connectCPUs(s); err != nil {
		return err
	}
	for _, cpu := range s.Nodes[NodeCPU] {
		if err := uplinkLast(cpu, nil, 0); err != nil {
			return err
		}
	}
	return nil
}

type builder struct {
	doc  *Document
	sys  *System
	errs []*SyntaxError
}

const maxErrors = 20

func (b *builder) fail(e *Element, format string, args ...any) {
	b.errs = append(b.errs, &SyntaxError{File: b.doc.File, Line: e.Line, Msg: fmt.Sprintf(format, args...)})
}

func (b *builder) err() error {
	slices.SortStableFunc(b.errs, func(x, y *SyntaxError) int { return cmp.Compare(x.Line, y.Line) })
	var joined []error
	for i, e := range b.errs {
		if i == 0 || *e != *b.errs[i-1] {
			joined = append(joined, e)
		}
	}
	if n := len(joined); n > maxErrors {
		joined = append(joined[:maxErrors], fmt.Errorf("%s: %d more errors", b.doc.File, n-maxErrors))
	}
	return errors.Join(joined...)
}

// text returns an attribute that NCCL cannot do without.
func (b *builder) text(e *Element, name string) string {
	v, ok := e.Attr(name)
	if !ok {
		b.fail(e, "<%s> has no %s", e.Name, name)
	}
	return v
}

func (b *builder) number(e *Element, name string) int {
	return int(int32(cnum.Int(b.text(e, name), 0)))
}

// add creates a node and fails at e if there are too many.
func (b *builder) add(e *Element, n *Node) *Node {
	if err := b.sys.add(n); err != nil {
		b.fail(e, "%v", err)
	}
	return n
}

func (b *builder) connect(e *Element, from, to *Node, t LinkType, bw float32) {
	if err := connect(from, to, t, bw); err != nil {
		b.fail(e, "%v", err)
	}
}

func (b *builder) connectBoth(e *Element, from, to *Node, t LinkType, bw float32) {
	b.connect(e, from, to, t, bw)
	b.connect(e, to, from, t, bw)
}

// host returns the number of the host that a CPU belongs to.
func (b *builder) host(e *Element) int {
	hash, _ := e.Attr("host_hash")
	h := cnum.Uint(hash, 16)
	i := slices.Index(b.sys.HostHashes, h)
	if i < 0 {
		if i = len(b.sys.HostHashes); i == maxHosts {
			b.fail(e, "more than %d hosts", maxHosts)
			return 0
		}
		b.sys.HostHashes = append(b.sys.HostHashes, h)
	}
	return i
}

func (b *builder) cpu(e *Element) {
	system := b.host(e)
	c := &CPU{Arch: lookup(cpuArchs, b.text(e, "arch"), 0), Vendor: -1, Model: -1}
	if c.Arch == ArchX86 {
		c.Vendor = lookup(cpuVendors, b.text(e, "vendor"), 0)
		switch c.Vendor {
		case VendorIntel:
			c.Model = intelModel(b.number(e, "familyid"), b.number(e, "modelid"), b.sys.NCCL)
		case VendorAMD:
			if b.sys.NCCL.Has(nccl.NewerCPUs) {
				c.Model = amdModel(b.number(e, "familyid"))
			}
		case VendorZhaoxin:
			c.Model = zhaoxinModel(b.number(e, "familyid"), b.number(e, "modelid"))
		}
	}
	cpu := b.add(e, &Node{Type: NodeCPU, ID: makeID(system, int64(b.number(e, "numaid"))), CPU: c})
	for _, child := range e.Children {
		switch child.Name {
		case "pci":
			b.pci(child, cpu, system)
		case "nic":
			b.hostNIC(child, cpu, system)
		}
	}
}

// hostNIC adds a NIC that hangs off no PCI device. NCCL has one such node per host, at the first CPU that has any.
func (b *builder) hostNIC(e *Element, cpu *Node, system int) {
	id := makeID(system, 0)
	nic := b.sys.find(NodeNIC, id)
	if nic == nil {
		nic = b.add(e, &Node{Type: NodeNIC, ID: id})
		b.connectBoth(e, cpu, nic, LinkPCI, bwLocal)
	}
	b.nic(e, nic, system, 0)
}

// pciClasses maps the start of a PCI class code to the node it becomes. Only bridges make a PCI node; GPUs and NICs are
// recognised by the elements below them. Classes not listed count as bridges.
var pciClasses = []keyword[NodeType]{
	{"0x060400", NodePCI}, {"0x080100", NodePCI}, {"0x068000", NodeNVS}, {"0x068001", NodeCPU},
	{"0x03", NodeGPU}, {"0x02", NodeNIC},
}

// pci adds a PCI device with all below it. Devices that hold nothing NCCL uses leave no trace.
func (b *builder) pci(e *Element, parent *Node, system int) {
	class := lookup(pciClasses, b.text(e, "class"), NodePCI)
	busID := cnum.BusID(b.text(e, "busid"))
	speed, _ := e.Attr("link_speed")
	bw := pciBW(speed, e.Int("link_width", 0))

	for _, child := range e.Children {
		if child.Name != "gpu" {
			continue
		}
		if !child.Has("rank") {
			return // a GPU that is not in the communicator
		}
		b.gpu(child, e, parent, system, busID, bw)
	}
	if nic := e.Child("nic"); nic != nil {
		b.pciNIC(nic, e, parent, makeID(system, busID), bw)
		return
	}
	if class != NodePCI {
		return
	}
	sw := b.add(e, &Node{Type: NodePCI, ID: makeID(system, busID), PCI: &PCI{PCIID: pciID(e)}})
	for _, child := range e.Children {
		switch child.Name {
		case "pci":
			b.pci(child, sw, system)
		case "gpu":
			b.fail(child, "gpu in a PCI device of class %q, want 0x03...", b.text(e, "class"))
		}
	}
	b.connectBoth(e, sw, parent, LinkPCI, bw)
}

// pciID packs vendor, device, subsystem vendor and subsystem device, 16 bits each. What is missing counts as 0.
func pciID(e *Element) uint64 {
	var id uint64
	for i, name := range []string{"vendor", "device", "subsystem_vendor", "subsystem_device"} {
		s, _ := e.Attr(name)
		id += uint64(cnum.Int(s, 0)) << (48 - 16*i)
	}
	return id
}

func isConnectX8(pciID uint64) bool {
	const mellanox = 0x15b3
	vendor, device := uint16(pciID>>48), uint16(pciID>>32)
	return vendor == mellanox && (device == 0x1023 || device == 0x2100)
}

func (b *builder) pciNIC(e, pci *Element, parent *Node, id ID, bw float32) {
	nic := b.sys.find(NodeNIC, id)
	isNew := nic == nil
	if isNew {
		nic = b.add(e, &Node{Type: NodeNIC, ID: id})
	}
	b.nic(e, nic, id.System(), pciID(pci))
	if isNew {
		b.connectBoth(e, nic, parent, LinkPCI, bw)
	}
}

// nic adds the network ports of a NIC. One element can stand for a port of up to three kinds.
func (b *builder) nic(e *Element, nic *Node, system int, pciID uint64) {
	for _, p := range e.Children {
		if p.Name != "net" || !p.Has("dev") {
			continue
		}
		for _, kind := range []struct {
			attr string
			def  int
			t    NodeType
		}{{"net", 1, NodeNET}, {"gin", 0, NodeGIN}, {"rma", 0, NodeRMA}} {
			if p.Int(kind.attr, kind.def) == 0 {
				continue
			}
			port := b.add(p, &Node{Type: kind.t, ID: makeID(system, int64(b.number(p, "dev")))})
			port.Net = netOf(p, port.ID)
			port.Net.ConnectX8 = isConnectX8(pciID)
			b.connectBoth(p, nic, port, LinkNET, float32(port.Net.BW))
		}
	}
}

func netOf(e *Element, id ID) *Net {
	guid := uint64(id)
	if s, ok := e.Attr("guid"); ok {
		guid = cnum.Uint(s, 16)
	}
	latency, _ := e.Attr("latency")
	name, _ := e.Attr("name")
	return &Net{
		Name:    name,
		Dev:     e.Int("dev", 0),
		GUID:    guid,
		Port:    e.Int("port", 0),
		Rail:    int(int16(e.Int("rail", -1))),
		Plane:   int(int16(e.Int("plane", -1))),
		BW:      netBW(e.Int("speed", 0)),
		Latency: Float32(cnum.Float(latency)),
		GDR:     e.Int("gdr", 0) != 0,
		Coll:    e.Int("coll", 0) != 0,
		MaxConn: e.Int("maxconn", nccl.MaxChannels),
	}
}
