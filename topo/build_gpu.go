package topo

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
		b.connectBoth(e, dev, parent, LinkPCI, bw)
		for _, half := range b.devicesAt(id) {
			if half != dev {
				b.connectBoth(e, dev, half, LinkLOC, bwMLOPart)
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
	b.connectBoth(e, dev, gpu, LinkLOC, bwLocal)
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
