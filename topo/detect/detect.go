// Package detect finds the topology of the machine it runs on. Load reads a topology file where NCCL would look for
// one. Without one, it describes the machine from sysfs and NVIDIA's driver.
//
// All paths are below a root directory that a test can fake, and NVML is an interface. Only nvml_cgo.go needs cgo: it
// loads the driver's library for the length of one call. The package keeps nothing between calls.
package detect

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
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
func detect(fs sysfs, nvml NVML, base *topo.Document) (*topo.Document, error) {
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
		d := &detector{fs: fs, cpu: cpu, gpus: gpus, root: topo.NewElement("system", "version", "1"),
			keep: make(map[*topo.Element]bool)}
		if base != nil {
			d.root = base.Root.Clone()
		}
		d.addGPU(rank)
		for dev := range nics {
			d.addNIC(&nics[dev], dev)
		}
		d.root.Keep(func(e *topo.Element) bool { return d.keep[e] })
		if out.Root == nil {
			out.Root = d.root
		} else {
			out.Root.Merge(d.root)
		}
	}
	return out, nil
}

// detector grows the tree of one rank.
type detector struct {
	fs   sysfs
	cpu  cpuInfo
	gpus []NVMLDevice
	root *topo.Element
	keep map[*topo.Element]bool // gpu and net elements that are on the machine
}

// parent is the element of the tree that an element is below; nil: none.
func (d *detector) parent(e *topo.Element) *topo.Element {
	for p := range d.root.All() {
		if slices.Contains(p.Children, e) {
			return p
		}
	}
	return nil
}

func (d *detector) addGPU(rank int) {
	dev := &d.gpus[rank]
	pci := d.pci(dev.BusID, classDisplay)
	gpu := pci.Child("gpu")
	if gpu == nil {
		gpu = pci.Add(topo.NewElement("gpu"))
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
		gpu.Add(topo.NewElement("c2c", "bw", strconv.Itoa(dev.C2CMBps), "count", strconv.Itoa(dev.C2CLinks)))
	}
	for _, link := range gpu.Children {
		if link.Name == "nvlink" && !link.Has("tclass") {
			target, _ := link.Attr("target")
			link.Set("tclass", cmp.Or(d.fs.pciClass(target), classNVSwitch)) // what cannot be seen is an NVSwitch
		}
	}
	gpu.Set("rank", strconv.Itoa(rank))
	setUnset(gpu, "gdr", strconv.Itoa(cnum.Bit(dev.gdr())))
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
	gpu.Add(topo.NewElement("nvlink", "target", peer, "count", "1"))
}

func (d *detector) addNIC(n *nic, dev int) {
	net := d.root.Find("net", "name", n.name)
	if net == nil {
		parent := d.nicParent(n)
		adapter := parent.Child("nic")
		if adapter == nil {
			adapter = parent.Add(topo.NewElement("nic"))
		}
		net = adapter.Add(topo.NewElement("net", "name", n.name))
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
	if n.pciPath != "" && path.Base(d.fs.realpath(n.pciPath, "subsystem")) == "pci" {
		return d.pci(path.Base(n.pciPath), classNetwork)
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

// Places where a topology is looked for.
const (
	TunerFileVariable = "NCCL_TUNER_TOPO_FILE"
	ncclFileVariable  = "NCCL_TOPO_FILE"
	// virtualFile is where NVIDIA's topology daemon leaves the description of a virtual machine.
	virtualFile = "/var/run/nvidia-topologyd/virtualTopology.xml"
)

// Source says where a topology came from.
type Source struct {
	Variable  string // environment variable that named File; "" for none
	File      string // "" when there was none
	Completed bool   // what the file leaves out was detected
	Hosts     int    // that File describes; 0 without
	// FewerNVLinks are topo.Document.FewerNVLinks of the topology.
	FewerNVLinks []string
}

func (s Source) String() string {
	text := "detected"
	switch {
	case s.Variable != "":
		text = fmt.Sprintf("%s=%s", s.Variable, s.File)
	case s.File != "":
		text = s.File
	}
	if s.Completed {
		text += ", completed by detection"
	}
	return text
}

// Load finds the topology of the machine whose files are below root ("/" for this one):
//
//  1. NCCL_TUNER_TOPO_FILE, taken as it is; it may describe another machine;
//  2. NCCL_TOPO_FILE;
//  3. the file where virtual machines have it (virtualFile);
//  4. the machine itself.
//
// NCCL completes the files of 2 and 3 by detection, and so does Load on a machine with GPUs. On others it takes them as
// they are. A named file that cannot be used, or that others can write to, is an error. Load tries nothing else then,
// where NCCL would go on without the file. File names are those of the machine, below root.
func Load(getenv func(string) string, root string, nvml NVML) (*topo.Document, Source, error) {
	doc, src, err := load(getenv, root, nvml)
	if err == nil {
		src.FewerNVLinks = doc.FewerNVLinks()
	}
	return doc, src, err
}

func load(getenv func(string) string, root string, nvml NVML) (*topo.Document, Source, error) {
	if file := getenv(TunerFileVariable); file != "" {
		src := Source{Variable: TunerFileVariable, File: file}
		doc, err := readBelow(root, file, getenv)
		if err != nil {
			return nil, src, fmt.Errorf("%s: %w", TunerFileVariable, err)
		}
		return doc, src, nil
	}
	src := Source{Variable: ncclFileVariable, File: getenv(ncclFileVariable)}
	if src.File == "" {
		src = Source{File: virtualFile}
	}
	base, err := readBelow(root, src.File, getenv)
	switch {
	case err == nil:
		src.Hosts = base.Hosts()
		doc, err := detect(newSysfs(root), nvml, base)
		if errors.Is(err, ErrNoGPU) {
			return base, src, nil
		}
		src.Completed = true
		return doc, src, err
	case src.Variable != "":
		return nil, src, fmt.Errorf("%s: %w", src.Variable, err)
	case !errors.Is(err, fs.ErrNotExist):
		return nil, src, err
	}
	doc, err := detect(newSysfs(root), nvml, nil)
	return doc, Source{}, err
}

func readBelow(root, file string, getenv func(string) string) (*topo.Document, error) {
	if root != "" && root != "/" {
		file = filepath.Join(root, file)
	}
	f, _, err := safefile.OpenOwned(file, getenv(safefile.TrustVariable) == "1")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return topo.Read(file, f)
}
