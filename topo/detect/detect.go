package detect

import (
	"fmt"
	"path"
	"slices"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/internal/cnum"
)

// detect describes a machine as NCCL would dump it with one rank on each GPU, ranks in the order of NVML: the PCI tree
// between GPUs, NICs and CPUs from sysfs, NVLink and compute capability from nvml. base is a topology file that
// describes the machine in part, or nil. detect completes it, and drops elements for GPUs and NICs that the machine
// does not have.
//
// Two things differ from a dump. host_hash is left out: it identifies the host, and NCCL overwrites it when it reads
// the file. The PCIe speed of a GPU is the best one that it and its slot manage, where NCCL takes the momentary one,
// because a GPU that is idle slows its link down.
//
// Without a GPU the error is a *NoGPUError.
func detect(fs *sysfs, nvml NVML, base *topo.Document) (*topo.Document, error) {
	gpus, err := nvml.Devices()
	if err != nil || len(gpus) == 0 {
		return nil, &NoGPUError{OnPCI: gpusOnPCI(fs), Cause: err}
	}
	cpu, err := parseCPUInfo(fs.read("/proc/cpuinfo"))
	if err != nil {
		return nil, fmt.Errorf("/proc/cpuinfo: %w", err)
	}
	nics := detectNICs(fs)

	out := &topo.Document{File: "detected topology"}
	if base != nil {
		out.File = base.File
	}
	// The order of elements decides ties between paths. In NCCL each rank describes its own GPU and all NICs, and then
	// these descriptions are merged.
	for rank := range gpus {
		d := &detector{fs: fs, cpu: cpu, gpus: gpus, parent: make(map[*topo.Element]*topo.Element),
			keep: make(map[*topo.Element]bool)}
		d.root = topo.NewElement("system", "version", "1")
		if base != nil {
			d.root = base.Root.Clone()
		}
		d.adopt(d.root)
		d.addGPU(rank, slices.ContainsFunc(nics, func(n nic) bool { return n.gdr }))
		for dev := range nics {
			d.addNIC(&nics[dev], dev)
		}
		d.trim(d.root)
		if out.Root == nil {
			out.Root = d.root
		} else {
			merge(out.Root, d.root)
		}
	}
	return out, nil
}

// detector grows the tree of one rank.
type detector struct {
	fs     *sysfs
	cpu    cpuInfo
	gpus   []NVMLDevice
	root   *topo.Element
	parent map[*topo.Element]*topo.Element
	keep   map[*topo.Element]bool // gpu and net elements that are on the machine
}

func (d *detector) adopt(e *topo.Element) {
	for _, c := range e.Children {
		d.parent[c] = e
		d.adopt(c)
	}
}

func (d *detector) add(parent, child *topo.Element) *topo.Element {
	d.parent[child] = parent
	return parent.Add(child)
}

func (d *detector) addGPU(rank int, gdr bool) {
	dev := &d.gpus[rank]
	pci := d.pci(dev.BusID, classDisplay)
	gpu := pci.Child("gpu")
	if gpu == nil {
		gpu = d.add(pci, topo.NewElement("gpu"))
	}
	d.keep[gpu] = true
	setUnset(gpu, "dev", strconv.Itoa(dev.Index))
	setUnset(gpu, "sm", strconv.Itoa(dev.ComputeCap))
	if gpu.Child("nvlink") == nil {
		for _, peer := range dev.NVLinks {
			d.addNVLink(gpu, peer)
		}
	}
	if gpu.Child("c2c") == nil && dev.C2CLinks > 0 {
		d.add(gpu, topo.NewElement("c2c", "bw", strconv.Itoa(dev.C2CMBps), "count", strconv.Itoa(dev.C2CLinks)))
	}
	for _, link := range gpu.Children {
		if link.Name == "nvlink" && !link.Has("tclass") {
			target, _ := link.Attr("target")
			link.Set("tclass", d.nvLinkPeerClass(target))
		}
	}
	gpu.Set("rank", strconv.Itoa(rank))
	setUnset(gpu, "gdr", strconv.Itoa(cnum.Bit(gdr && dev.gdr())))
	gpu.Set("mlopart", "-1") // not a partition
}

// addNVLink counts a link to the peer.
func (d *detector) addNVLink(gpu *topo.Element, peer string) {
	if peer == "" {
		peer = hiddenNVLinkPeer
	}
	for _, link := range gpu.Children {
		if target, _ := link.Attr("target"); link.Name == "nvlink" && target == peer {
			link.Set("count", strconv.Itoa(link.Int("count", 0)+1))
			return
		}
	}
	d.add(gpu, topo.NewElement("nvlink", "target", peer, "count", "1"))
}

// nvLinkPeerClass is the PCI class of the device at the other end; one that cannot be seen is an NVSwitch.
func (d *detector) nvLinkPeerClass(busID string) string {
	if dir, ok := d.fs.pciPath(busID); ok {
		if class := d.fs.read(dir, "class"); class != "" {
			return class
		}
	}
	return classNVSwitch
}

func (d *detector) addNIC(n *nic, dev int) {
	net := d.root.Find("net", "name", n.name)
	if net == nil {
		parent := d.nicParent(n)
		adapter := parent.Child("nic")
		if adapter == nil {
			adapter = d.add(parent, topo.NewElement("nic"))
		}
		net = d.add(adapter, topo.NewElement("net", "name", n.name))
	}
	d.keep[net] = true
	net.Set("dev", strconv.Itoa(dev))
	setUnset(net, "latency", "0") // NCCL's own plugins state none
	setUnset(net, "speed", strconv.Itoa(n.mbps))
	setUnset(net, "port", strconv.Itoa(n.port))
	setUnset(net, "guid", fmt.Sprintf("%#x", n.guid))
	setUnset(net, "maxconn", strconv.Itoa(n.maxComms))
	setUnset(net, "gdr", strconv.Itoa(cnum.Bit(n.gdr)))
	net.Set("net", "1")
}

// nicParent is the PCI device of a NIC, or for one without (virtual, USB) the first CPU.
func (d *detector) nicParent(n *nic) *topo.Element {
	if n.pciPath != "" {
		if subsystem, _ := d.fs.realpath(n.pciPath, "subsystem"); path.Base(subsystem) == "pci" {
			return d.pci(path.Base(n.pciPath), classNetwork)
		}
	}
	// The GPU came first, so there is a CPU.
	for e := range d.root.All() {
		if e.Name == "cpu" {
			return e
		}
	}
	return d.numaNode("0")
}

func setUnset(e *topo.Element, name, value string) {
	if !e.Has(name) {
		e.Set(name, value)
	}
}
