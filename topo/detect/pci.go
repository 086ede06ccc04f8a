package detect

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/internal/cnum"
)

// PCI classes that NCCL assumes when sysfs has no entry for a device.
const (
	classDisplay  = "0x03"
	classNetwork  = "0x02"
	classNVSwitch = "0x068000"

	vendorBroadcom = "0x1000"
)

// pci returns the element of a PCI device, with all above it.
func (d *detector) pci(busID, class string) *topo.Element {
	e := d.device(busID)
	setUnset(e, "class", class)
	d.describe(e)
	return e
}

// device returns the element of a PCI device, a new one if the tree has none.
func (d *detector) device(busID string) *topo.Element {
	if e := d.root.Find("pci", "busid", busID); e != nil {
		return e
	}
	return topo.NewElement("pci", "busid", busID)
}

// describe fills in a PCI device and joins it to the tree.
func (d *detector) describe(e *topo.Element) {
	busID, _ := e.Attr("busid")
	dir := d.fs.pciPath(busID)
	if class := d.fs.pciClass(busID); class != "" {
		e.Set("class", class)
	}
	for _, a := range d.pciAttributes(busID, dir) {
		setUnset(e, a.Name, a.Value)
	}
	if vendor, _ := e.Attr("vendor"); vendor == vendorBroadcom {
		d.addSwitchLinks(e, busID)
	}
	parent := d.parent(e)
	if parent == nil {
		parent = d.above(dir)
		insertByBusID(parent, e)
	}
	if parent.Name == "pci" {
		d.describe(parent)
	}
}

// pciAttributes are the identity and the link of a device, from the driver for a GPU, else from sysfs.
func (d *detector) pciAttributes(busID, dir string) []topo.Attr {
	for i := range d.gpus {
		g := &d.gpus[i]
		if !strings.EqualFold(g.BusID, busID) {
			continue
		}
		return topo.Attrs(
			"vendor", fmt.Sprintf("%#x", g.Vendor), "device", fmt.Sprintf("%#x", g.Device),
			"subsystem_vendor", fmt.Sprintf("%#x", g.SubVendor), "subsystem_device", fmt.Sprintf("%#x", g.SubDevice),
			"link_speed", g.linkSpeed(), "link_width", strconv.Itoa(cmp.Or(g.LinkWidth, 16)),
		)
	}
	if dir == "" {
		return topo.Attrs("link_speed", "", "link_width", "")
	}
	var attrs []topo.Attr
	for _, name := range []string{"vendor", "device", "subsystem_vendor", "subsystem_device"} {
		if v := d.fs.read(dir, name); v != "" {
			attrs = append(attrs, topo.Attr{Name: name, Value: v})
		}
	}
	// A link is as fast as the slower of its two ends. A speed that is no number, such as "Unknown", is no limit. The
	// root complex has no width, so the result is 0 there, and NCCL's reader then assumes 16 lanes.
	up := path.Dir(dir)
	speed, upSpeed := d.fs.read(dir, "max_link_speed"), d.fs.read(up, "max_link_speed")
	if s := cnum.Float(upSpeed); s > 0 && (s < cnum.Float(speed) || cnum.Float(speed) == 0) {
		speed = upSpeed
	}
	width := min(cnum.Int(d.fs.read(dir, "max_link_width"), 0), cnum.Int(d.fs.read(up, "max_link_width"), 0))
	return append(attrs, topo.Attrs("link_speed", speed, "link_width", strconv.FormatInt(width, 10))...)
}

// addSwitchLinks adds links to the other parts of a Broadcom switch that is split. The driver of the switch names them.
func (d *detector) addSwitchLinks(e *topo.Element, busID string) {
	for _, peer := range d.fs.list(path.Join("/sys/kernel/pci_switch_link/virtual_switch_links",
		strings.ToLower(busID))) {
		if d.fs.pciPath(peer) != "" && e.Find("pcilink", "target", peer) == nil {
			e.Add(topo.NewElement("pcilink", "target", peer))
		}
	}
}

// above is what a PCI device hangs off. A switch is two bridges in a row, so NCCL goes up two levels at a time and
// stops at the CPU when either is no PCI device: a bridge that is part of the CPU is passed over.
func (d *detector) above(dir string) *topo.Element {
	if dir == "" {
		return d.numaNode("-1")
	}
	numa := d.fs.read(dir, "numa_node")
	bridge := path.Dir(dir)
	upper := path.Dir(bridge)
	if !isBusID(path.Base(bridge)) || !isBusID(path.Base(upper)) {
		return d.numaNode(numa)
	}
	return d.device(path.Base(upper))
}

// numaNode returns the CPU of a NUMA node.
func (d *detector) numaNode(id string) *topo.Element {
	e := d.root.Find("cpu", "numaid", id)
	if e == nil {
		e = d.root.Add(topo.NewElement("cpu", "numaid", id))
	}
	setUnset(e, "affinity", d.fs.read("/sys/devices/system/node/node"+id, "cpumap"))
	setUnset(e, "arch", d.cpu.arch)
	if d.cpu.arch == "x86_64" {
		setUnset(e, "vendor", d.cpu.vendor)
		setUnset(e, "familyid", strconv.Itoa(d.cpu.family))
		setUnset(e, "modelid", strconv.Itoa(d.cpu.model))
	}
	return e
}

// insertByBusID keeps PCI devices below one parent in the order of their addresses.
func insertByBusID(parent, child *topo.Element) {
	id, _ := child.Attr("busid")
	at := slices.IndexFunc(parent.Children, func(c *topo.Element) bool {
		other, ok := c.Attr("busid")
		return ok && id < other
	})
	if at < 0 {
		at = len(parent.Children)
	}
	parent.Children = slices.Insert(parent.Children, at, child)
}

// sysfs reads the kernel's view of the machine below a root directory, "/" or a fake one. Paths given to it and coming
// from it are those of the machine, without the root.
type sysfs string

func newSysfs(root string) sysfs {
	if root == "" {
		root = "/"
	}
	// Real paths are cut at the root, so the root itself must be one.
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	}
	return sysfs(root)
}

// read returns the text of a file without the line end, or "" when it cannot be read: a driver may leave out or refuse
// any attribute.
func (s sysfs) read(path ...string) string {
	raw, err := safefile.Read(s.path(path...), 1<<20)
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(raw), "\r\n")
}

// path is where a path of the machine really is.
func (s sysfs) path(path ...string) string {
	return filepath.Join(append([]string{string(s)}, path...)...)
}

func (s sysfs) exists(path string) bool {
	_, err := os.Stat(s.path(path))
	return err == nil
}

// realpath follows all links. It is "" when there is nothing at the path.
func (s sysfs) realpath(path ...string) string {
	full, err := filepath.EvalSymlinks(s.path(path...))
	if err != nil {
		return ""
	}
	rel, err := filepath.Rel(string(s), full)
	if err != nil {
		return ""
	}
	return filepath.Join("/", rel)
}

// list returns the names in a directory in alphabetical order, none when there is no such directory.
func (s sysfs) list(path string) []string {
	entries, err := os.ReadDir(s.path(path))
	if err != nil {
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// pciPath is the directory of a PCI device, whose parents are the bridges above it; "" when sysfs has no such device.
func (s sysfs) pciPath(busID string) string {
	busID = strings.ToLower(busID)
	if !isBusID(busID) {
		return ""
	}
	return s.realpath("/sys/bus/pci/devices", busID)
}

// pciClass is the class of a PCI device; "" when sysfs does not tell.
func (s sysfs) pciClass(busID string) string {
	dir := s.pciPath(busID)
	if dir == "" {
		return ""
	}
	return s.read(dir, "class")
}

// isBusID reports whether s is a PCI address such as 0000:3b:00.0.
func isBusID(s string) bool {
	const form = "xxxx:xx:xx.x"
	if len(s) != len(form) {
		return false
	}
	for i := range len(form) {
		if form[i] == 'x' && cnum.HexDigit(s[i]) > 15 || form[i] != 'x' && s[i] != form[i] {
			return false
		}
	}
	return true
}

// cpuInfo is a processor as NCCL names it in <cpu>. Only x86 has more than an architecture.
type cpuInfo struct {
	arch   string
	vendor string
	family int
	model  int
}

// parseCPUInfo reads /proc/cpuinfo.
func parseCPUInfo(text string) (cpuInfo, error) {
	fields := make(map[string]string)
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		key = strings.TrimSpace(key)
		if _, seen := fields[key]; ok && !seen {
			// Zhaoxin's vendor string begins and ends with blanks, so only the separator goes.
			fields[key] = strings.TrimPrefix(value, " ")
		}
	}
	if vendor, ok := fields["vendor_id"]; ok && fields["cpu family"] != "" {
		family, errFamily := strconv.Atoi(fields["cpu family"])
		model, errModel := strconv.Atoi(fields["model"])
		if errFamily != nil || errModel != nil {
			return cpuInfo{}, fmt.Errorf("cpu family %s, model %s (needed: numbers)",
				wording.Quote(fields["cpu family"]), wording.Quote(fields["model"]))
		}
		return cpuInfo{"x86_64", vendor, ncclFamily(family), model}, nil
	}
	if _, ok := fields["CPU implementer"]; ok {
		return cpuInfo{arch: "arm64"}, nil
	}
	if strings.HasPrefix(fields["cpu"], "POWER") {
		return cpuInfo{arch: "ppc64"}, nil
	}
	return cpuInfo{}, errors.New("not an x86-64, ARM or POWER processor, the ones NCCL knows")
}

// ncclFamily turns the kernel's number of a CPU family into NCCL's. CPUID has a family of 4 bits and, when that is 15,
// an extended family: the kernel adds them, NCCL shifts the extension by 4 first.
func ncclFamily(family int) int {
	if family < 15 {
		return family
	}
	return 15 + (family-15)<<4
}
