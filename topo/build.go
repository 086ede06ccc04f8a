package topo

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

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
	flattenBCM(b.sys)
	connectCPUs(b.sys)
	for _, cpu := range b.sys.Nodes[NodeCPU] {
		if err := uplinkLast(cpu, nil, 0); err != nil {
			return nil, fmt.Errorf("%s: %w", doc.File, err)
		}
	}
	return b.sys, nil
}

// builder is one Build: nodes first, in the order of the file, then links, whose ends must be there.
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
	nodes := &b.sys.Nodes[n.Type]
	if n.Index = len(*nodes); n.Index == MaxNodes {
		b.fail(e, "more than %d nodes of type %s", MaxNodes, n.Type)
		return n
	}
	*nodes = append(*nodes, n)
	return n
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
		connectBoth(cpu, nic, LinkPCI, bwLocal)
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
	connectBoth(sw, parent, LinkPCI, bw)
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
		connectBoth(nic, parent, LinkPCI, bw)
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
			connectBoth(nic, port, LinkNET, float32(port.Net.BW))
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

// A Broadcom PEX switch of generation 4 or 5 appears as a tree of two levels, although all its ports have full
// bandwidth. The PCI ID tells the upper part (level 0) from the lower ones (level 1).

const bcmFused = 0xffff // as subsystem device: already flattened

// bcmGeneration returns 4 or 5 if the PCI ID is that of a Broadcom PEX switch at a level of its tree, else 0.
func bcmGeneration(pciID uint64, level uint64) int {
	switch pciID &^ 0xfff {
	case 0x1000c0101000a000:
		return 4
	case 0x1000c03010000000 | level<<12:
		return 5
	}
	return 0
}

// flattenBCM joins each two-level switch into one node, so that the lower level does not count as a hop between its
// ports.
func flattenBCM(s *System) {
	for i := 0; i < len(s.Nodes[NodePCI]); i++ {
		top := s.Nodes[NodePCI][i]
		gen := bcmGeneration(top.PCI.PCIID, 0)
		if gen == 0 {
			continue
		}
		var lower []*Node
		top.Links = slices.DeleteFunc(top.Links, func(l Link) bool {
			is := l.To.Type == NodePCI && bcmGeneration(l.To.PCI.PCIID, 1) == gen
			if is {
				lower = append(lower, l.To)
			}
			return is
		})
		for _, sub := range lower {
			adopt(top, sub)
			s.remove(sub)
		}
		top.PCI.PCIID |= bcmFused
		i = -1 // removing nodes has moved the others
	}
}

// adopt moves the links of sub, and those that come back to it, to top.
func adopt(top, sub *Node) {
	for _, l := range sub.Links {
		if l.To == top {
			continue
		}
		top.Links = append(top.Links, l)
		for i := range l.To.Links {
			if l.To.Links[i].To == sub {
				l.To.Links[i].To = top
				break
			}
		}
	}
}

// A GPU with memory partitions ("MLOPart") is two devices at one PCI address. The two lowest bits of the address, 0 for
// every real GPU, tell them apart: bit 0 marks a partition and bit 1 is its number.
const (
	mloPartMask = 3
	maxMLOParts = 2
	noMLOPart   = -1
)

// gpu adds a rank, and its device if this is the device's first rank.
func (b *builder) gpu(e, pci *Element, parent *Node, system int, busID int64, bw float32) {
	if busID&mloPartMask != 0 {
		b.fail(pci, "busid of a GPU must be a multiple of 4 (got %#x)", busID)
		return
	}
	part := e.Int("mlopart", noMLOPart)
	if b.splits(part) && part >= maxMLOParts {
		b.fail(e, "mlopart is %d, at most %d", part, maxMLOParts-1)
		return
	}
	id := b.deviceID(e, system, busID)
	dev := b.sys.find(NodeDEV, id)
	if dev == nil {
		dev = b.add(e,
			&Node{Type: NodeDEV, ID: id,
				Dev: &Device{PCIID: pciID(pci), Dev: b.number(e, "dev"), SM: b.number(e, "sm")}})
		connectBoth(dev, parent, LinkPCI, bw)
		for _, half := range b.devicesAt(id) {
			if half != dev {
				connectBoth(dev, half, LinkLOC, bwMLOPart)
			}
		}
	}
	rank := b.number(e, "rank")
	if b.sys.byRank(rank) != nil {
		b.fail(e, "rank %d is given to two GPUs", rank)
	}
	const rankShift = 40 // several ranks may share a device
	local := int64(dev.Dev.NGPUs)<<rankShift | id.Local()&(1<<rankShift-1)
	gpu := b.add(e, &Node{Type: NodeGPU, ID: makeID(system, local), GPU: &GPU{
		Rank:    rank,
		Dev:     b.number(e, "dev"),
		SM:      b.number(e, "sm"),
		GDR:     b.number(e, "gdr") != 0,
		MLOPart: part,
		Device:  dev,
	}})
	connectBoth(dev, gpu, LinkLOC, bwLocal)
	dev.Dev.NGPUs++
}

func (b *builder) splits(part int) bool { return part != noMLOPart && !b.sys.WholeMLOPart }

// deviceID is the ID of the device that a gpu element belongs to.
func (b *builder) deviceID(gpu *Element, system int, busID int64) ID {
	if part := gpu.Int("mlopart", noMLOPart); b.splits(part) {
		busID |= (int64(part)<<1 | 1) & mloPartMask
	}
	return makeID(system, busID)
}

// devicesAt returns the devices at a PCI address: one, or the two halves of a split GPU.
func (b *builder) devicesAt(id ID) []*Node {
	var at []*Node
	for _, d := range b.sys.Nodes[NodeDEV] {
		if d.ID&^mloPartMask == id&^mloPartMask {
			at = append(at, d)
		}
	}
	return at
}

// firstOfDevice reports whether a gpu element is the first below its PCI element that stands for its device. Only that
// one's NVLinks and C2C count.
func (b *builder) firstOfDevice(gpu, pci *Element) bool {
	for _, c := range pci.Children {
		if c == gpu {
			break
		}
		if c.Name == "gpu" && (b.sys.WholeMLOPart || c.Int("mlopart", noMLOPart) == gpu.Int("mlopart", noMLOPart)) {
			return false
		}
	}
	return true
}

// links adds the links that are not PCI, when all nodes are there. The order of the passes is that of NCCL and shows in
// the order of the links.
func (b *builder) links(root *Element) {
	for _, pass := range []struct {
		name string
		add  func(site, *Element)
	}{{"nvlink", b.nvlink}, {"c2c", b.c2c}, {"pcilink", b.pcilink}} {
		for _, c := range root.Children {
			if c.Name == "cpu" {
				b.visit(site{system: b.host(c)}, c, pass.name, pass.add)
			}
		}
	}
}

// site is where a link element stands.
type site struct {
	system   int
	pci, gpu *Element
}

func (b *builder) visit(at site, e *Element, name string, add func(site, *Element)) {
	switch e.Name {
	case name:
		add(at, e)
		return
	case "pci":
		at.pci = e
	case "gpu":
		at.gpu = e
	}
	for _, c := range e.Children {
		b.visit(at, c, name, add)
	}
}

// device returns the device that a link element belongs to. It is nil if the GPU is not in the communicator, or if an
// earlier gpu element describes the links of the device.
func (b *builder) device(at site) *Node {
	if at.gpu == nil || at.pci == nil || !b.firstOfDevice(at.gpu, at.pci) {
		return nil
	}
	busID, _ := at.pci.Attr("busid")
	return b.sys.find(NodeDEV, b.deviceID(at.gpu, at.system, cnum.BusID(busID)))
}

// nvlink adds NVLinks to another GPU (this end only: the other GPU's elements describe the other end), to the CPU
// (POWER) or to the NVSwitches. The halves of a split GPU share its links evenly.
func (b *builder) nvlink(at site, e *Element) {
	dev := b.device(at)
	if dev == nil {
		return
	}
	bw := float32(b.number(e, "count")) * nvLinkBW(dev.Dev.SM, b.sys.NCCL)
	parts := float32(len(b.devicesAt(dev.ID)))
	switch lookup(pciClasses, b.text(e, "tclass"), NodePCI) {
	case NodeGPU:
		peers := b.devicesAt(makeID(at.system, cnum.BusID(b.text(e, "target"))))
		for _, p := range peers {
			connect(dev, p, LinkNVL, bw/float32(len(peers))/parts)
		}
	case NodeCPU:
		if cpu := cpuAbove(dev, nil); cpu != nil {
			connectBoth(dev, cpu, LinkNVL, bw/parts)
		}
	default:
		connectBoth(dev, b.nvSwitch(e), LinkNVL, bw/parts)
	}
}

// nvSwitch returns the one node that stands for all NVSwitches.
func (b *builder) nvSwitch(e *Element) *Node {
	if nodes := b.sys.Nodes[NodeNVS]; len(nodes) > 0 {
		return nodes[0]
	}
	return b.add(e, &Node{Type: NodeNVS})
}

// c2c adds a GPU's chip-to-chip link to its CPU: count links of bw MB/s. The halves of a split GPU reach it through a
// node of its own, so that they share the bandwidth.
func (b *builder) c2c(at site, e *Element) {
	dev := b.device(at)
	if dev == nil {
		return
	}
	bw := float32(float64(int32(b.number(e, "bw")*b.number(e, "count"))) / 1000)
	cpu := cpuAbove(dev, nil)
	if cpu == nil {
		return
	}
	if len(b.devicesAt(dev.ID)) == 1 {
		kind := LinkC2C
		if !b.sys.NCCL.Has(nccl.C2CLinks) {
			kind = LinkNVL
		}
		connectBoth(dev, cpu, kind, bw)
		return
	}
	id := dev.ID &^ mloPartMask
	bridge := b.sys.find(NodeCXB, id)
	if bridge == nil {
		bridge = b.add(e, &Node{Type: NodeCXB, ID: id})
		connectBoth(bridge, cpu, LinkC2C, bw)
	}
	connectBoth(dev, bridge, LinkC2C, bw)
}

// pcilink adds a link between two PCI switches that are one fabric. Targets that are not in the system are left out.
func (b *builder) pcilink(at site, e *Element) {
	if at.pci == nil {
		return
	}
	busID, _ := at.pci.Attr("busid")
	from := b.sys.find(NodePCI, makeID(at.system, cnum.BusID(busID)))
	if from == nil {
		b.fail(e, "pcilink of %s, which is no PCI switch of this system", busID)
		return
	}
	to := b.sys.find(NodePCI, makeID(at.system, cnum.BusID(b.text(e, "target"))))
	if to != nil && to != from {
		connect(from, to, LinkLOC, bwLocal)
	}
}

// cpuAbove goes up the PCI tree from a node to its CPU.
func cpuAbove(n, from *Node) *Node {
	if n.Type == NodeCPU {
		return n
	}
	for _, l := range n.Links {
		if l.Type != LinkPCI || l.To == from || l.To.Type != NodePCI && l.To.Type != NodeCPU {
			continue
		}
		if cpu := cpuAbove(l.To, n); cpu != nil {
			return cpu
		}
	}
	return nil
}

// connectCPUs links the CPUs of each host with each other.
func connectCPUs(s *System) {
	for _, a := range s.Nodes[NodeCPU] {
		for _, c := range s.Nodes[NodeCPU] {
			if a != c && sameHost(a, c) {
				connect(a, c, LinkSYS, interCPUBW(a.CPU))
			}
		}
	}
}

// uplinkLast puts the link to up behind the others, and does so for the PCI tree below n. The search for paths then
// looks down before it looks up. Switches joined across CPUs can make PCI links run in a circle, which is refused.
func uplinkLast(n, up *Node, depth int) error {
	if depth > MaxDepth {
		return fmt.Errorf("PCI links through %s run in a circle", n.Name())
	}
	for i, l := range n.Links {
		if l.To == up {
			n.Links = append(append(n.Links[:i:i], n.Links[i+1:]...), l)
			break
		}
	}
	for _, l := range n.Links {
		if l.Type != LinkPCI || l.To == up {
			continue
		}
		if err := uplinkLast(l.To, n, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// CPU is one NUMA domain.
type CPU struct {
	Arch   CPUArch
	Vendor CPUVendor // -1 unless x86
	Model  CPUModel  // -1 unless Intel, Yongfeng, or AMD from nccl.NewerCPUs on
}

// These numbers are NCCL's, because NCCL prints them. 0 means that NCCL does not know the CPU, -1 that NCCL does not
// look at this property.
type (
	// CPUArch is an instruction set.
	CPUArch int
	// CPUVendor is who made it.
	CPUVendor int
	// CPUModel is a generation.
	CPUModel int
)

const (
	ArchX86   CPUArch = nccl.ArchX86
	ArchPOWER CPUArch = 2
	ArchARM   CPUArch = nccl.ArchARM

	VendorIntel   CPUVendor = 1
	VendorAMD     CPUVendor = 2
	VendorZhaoxin CPUVendor = 3

	ModelBroadwell CPUModel = 1 // Intel, and older
	ModelSkylake   CPUModel = 2
	ModelSapphire  CPUModel = 3
	ModelEmerald   CPUModel = 4
	ModelZen1      CPUModel = 1 // AMD, and Zen 2; -1 where all generations count alike
	ModelZen3      CPUModel = 2 // and Zen 4
	ModelZen5      CPUModel = 3
	ModelYongfeng  CPUModel = 1 // Zhaoxin
)

var cpuArchs = []keyword[CPUArch]{{"x86_64", ArchX86}, {"arm64", ArchARM}, {"ppc64", ArchPOWER}}

// cpuVendors are the identification strings of CPUID leaf 0.
var cpuVendors = []keyword[CPUVendor]{
	{"GenuineIntel", VendorIntel},
	{"AuthenticAMD", VendorAMD},
	{"CentaurHauls", VendorZhaoxin},
	{"  Shanghai  ", VendorZhaoxin},
}

// intelModel tells generations apart by CPUID family and model. Family 6: 0x55 Skylake-SP, 0x8f Sapphire Rapids, 0xcf
// Emerald Rapids, 0xad to 0xaf Granite Rapids.
func intelModel(family, model int, version nccl.Version) CPUModel {
	granite := model >= 0xad && model <= 0xaf && version.Has(nccl.NewerCPUs)
	switch {
	case family == 6 && model >= 0x55 && !version.Has(nccl.ServerCPUs):
		return ModelSkylake
	case family == 6 && (model >= 0xcf || granite):
		return ModelEmerald
	case family == 6 && model >= 0x8f:
		return ModelSapphire
	case family == 6 && model >= 0x55:
		return ModelSkylake
	}
	return ModelBroadwell
}

// amdModel goes by the CPUID family, as NCCL's own detection (0x8f, 0xaf, 0xbf) and others (23, 25, 26) write it.
func amdModel(family int) CPUModel {
	switch family {
	case 0xbf, 26:
		return ModelZen5
	case 0xaf, 25:
		return ModelZen3
	}
	return ModelZen1
}

func zhaoxinModel(family, model int) CPUModel {
	if family == 7 && model == 0x5b {
		return ModelYongfeng
	}
	return -1
}

// Bandwidths in GB/s, as in NCCL's graph/topo.h and topo.cc. They are what one direction of a link sustains for
// NCCL's traffic, which is less than the nominal rate.
const (
	bwLocal      = 5000  // within a device
	bwMLOPart    = 2618  // between the two halves of a split GPU
	defaultMbps  = 10000 // of a network port whose speed is missing, 0 or negative
	defaultWidth = 16    // PCI lanes, where the width is 0 or missing
)

// nvLinkBW is the bandwidth of one NVLink of a GPU with compute capability sm (times 10).
func nvLinkBW(sm int, version nccl.Version) float32 {
	switch {
	case sm >= 100 && version.Has(nccl.WiderBlackwellLinks):
		return 40.1
	case sm >= 100 && version.Has(nccl.BlackwellLinks):
		return 40
	case sm >= 90:
		return 20.6
	case sm == 86:
		return 12
	case sm >= 70:
		return 20
	case sm >= 60:
		return 18
	}
	return 20
}

// pciSpeeds holds megabits per second and lane, divided by 100. The first entry that the text starts with counts; the
// kernel writes "16.0 GT/s PCIe", older ones "16 GT/s".
var pciSpeeds = []keyword[int]{
	{"2.5 GT/s", 15}, {"5 GT/s", 30}, {"8 GT/s", 60}, {"16 GT/s", 120}, {"32 GT/s", 240},
	{"5.0 GT/s PCIe", 30}, {"8.0 GT/s PCIe", 60}, {"16.0 GT/s PCIe", 120},
	{"32.0 GT/s PCIe", 240}, {"64.0 GT/s PCIe", 480},
}

const defaultPCISpeed = 60 // 8 GT/s

func pciBW(speed string, width int) float32 {
	if width == 0 {
		width = defaultWidth
	}
	return float32(float64(int32(width*lookup(pciSpeeds, speed, defaultPCISpeed))) / 80)
}

func netBW(mbps int) Float32 {
	if mbps <= 0 {
		mbps = defaultMbps
	}
	return Float32(float64(mbps) / 8000)
}

// interCPUBW is the bandwidth from one CPU to the other CPUs of its host.
func interCPUBW(c *CPU) float32 {
	if bw, known := interCPU[*c]; known {
		return bw
	}
	return bwLocal
}

var interCPU = map[CPU]float32{
	{ArchPOWER, -1, -1}:                     32, // X-bus
	{ArchARM, -1, -1}:                       6,
	{ArchX86, VendorIntel, ModelBroadwell}:  6,  // QPI
	{ArchX86, VendorIntel, ModelSkylake}:    10, // UPI, also Cascade Lake and Ice Lake
	{ArchX86, VendorIntel, ModelSapphire}:   22,
	{ArchX86, VendorIntel, ModelEmerald}:    40, // and later
	{ArchX86, VendorAMD, -1}:                16, // Infinity Fabric
	{ArchX86, VendorAMD, ModelZen1}:         16,
	{ArchX86, VendorAMD, ModelZen3}:         24,
	{ArchX86, VendorAMD, ModelZen5}:         32,
	{ArchX86, VendorZhaoxin, -1}:            6, // ZPI
	{ArchX86, VendorZhaoxin, ModelYongfeng}: 9,
}

// keyword is an entry of a table that is searched by prefix.
type keyword[T any] struct {
	prefix string
	value  T
}

func lookup[T any](table []keyword[T], text string, def T) T {
	for _, k := range table {
		if strings.HasPrefix(text, k.prefix) {
			return k.value
		}
	}
	return def
}
