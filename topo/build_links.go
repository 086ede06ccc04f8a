package topo

import (
	"fmt"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/internal/cnum"
)

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
			b.connect(e, dev, p, LinkNVL, bw/float32(len(peers))/parts)
		}
	case NodeCPU:
		if cpu := cpuAbove(dev, nil); cpu != nil {
			b.connectBoth(e, dev, cpu, LinkNVL, bw/parts)
		}
	default:
		b.connectBoth(e, dev, b.nvSwitch(e), LinkNVL, bw/parts)
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
		b.connectBoth(e, dev, cpu, kind, bw)
		return
	}
	id := dev.ID &^ mloPartMask
	bridge := b.sys.find(NodeCXB, id)
	if bridge == nil {
		bridge = b.add(e, &Node{Type: NodeCXB, ID: id})
		b.connectBoth(e, bridge, cpu, LinkC2C, bw)
	}
	b.connectBoth(e, dev, bridge, LinkC2C, bw)
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
	if to != nil {
		b.connect(e, from, to, LinkLOC, bwLocal)
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
func connectCPUs(s *System) error {
	for _, a := range s.Nodes[NodeCPU] {
		for _, c := range s.Nodes[NodeCPU] {
			if a == c || a.ID.System() != c.ID.System() {
				continue
			}
			if err := connect(a, c, LinkSYS, interCPUBW(a.CPU)); err != nil {
				return err
			}
		}
	}
	return nil
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
