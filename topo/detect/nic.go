package detect

import (
	"cmp"
	"math/bits"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo/internal/cnum"
)

// Limits and constants of NCCL's own net plugins.
const (
	maxIBPorts     = 32
	maxSocketIfs   = 16
	socketMbps     = 10000 // when the driver states no speed
	socketMaxComms = 65536
	// queue pairs of an mlx5 device; not in sysfs, and NCCL only compares it with its channels
	verbsMaxComms    = 131072
	ifUp             = 1   // IFF_UP
	dmaBufKernel     = 512 // Linux 5.12 brought DMA-BUF to verbs; major*100 + minor
	openModuleMarker = "Open Kernel Module"
)

// nic is a network port, as a net plugin of NCCL describes it.
type nic struct {
	name     string
	pciPath  string // directory of the device in /sys; "" for a virtual NIC
	guid     uint64 // ports with one GUID are ports of one adapter
	port     int    // from 1 for verbs, counting the functions of one adapter; 0 for sockets
	mbps     int
	maxComms int
	gdr      bool // reaches the memory of GPUs
}

// detectNICs lists the network ports that NCCL uses, in NCCL's order: the verbs ports with an active link, by PCI
// address, or without any the IP interfaces that NCCL's socket plugin takes. It ignores NCCL_IB_HCA and
// NCCL_SOCKET_IFNAME.
func detectNICs(fs sysfs) []nic {
	if ports := verbsPorts(fs); len(ports) > 0 {
		return ports
	}
	return socketInterfaces(fs)
}

// verbsPorts lists the active ports of /sys/class/infiniband.
func verbsPorts(fs sysfs) []nic {
	const class = "/sys/class/infiniband"
	type port struct {
		nic
		address int64 // of the function; pciPath names function 0
	}
	var ports []port
	gdr := offersGDR(fs)
	for _, name := range fs.list(class) {
		full := fs.realpath(class, name, "device")
		numbers := fs.list(path.Join(class, name, "ports"))
		slices.SortFunc(numbers, func(a, b string) int { return cmp.Compare(cnum.Int(a, 10), cnum.Int(b, 10)) })
		for _, number := range numbers {
			dir := path.Join(class, name, "ports", number)
			link := fs.read(dir, "link_layer")
			if !strings.HasPrefix(fs.read(dir, "state"), "4:") || link != "InfiniBand" && link != "Ethernet" {
				continue
			}
			ports = append(ports, port{nic{
				name: name, pciPath: adapterPath(full), guid: verbsGUID(fs.read(class, name, "sys_image_guid")),
				port: int(cnum.Int(number, 10)), mbps: verbsMbps(fs.read(dir, "rate")), maxComms: verbsMaxComms,
				gdr: gdr,
			}, cnum.BusID(path.Base(full))})
		}
	}
	if len(ports) > maxIBPorts {
		ports = ports[:maxIBPorts]
	}
	slices.SortStableFunc(ports, func(a, b port) int {
		if (a.pciPath == "") != (b.pciPath == "") {
			return cmp.Compare(len(b.pciPath), len(a.pciPath)) // without an address: last
		}
		return cmp.Compare(a.address, b.address)
	})
	nics := make([]nic, len(ports))
	for i, p := range ports {
		// Recent adapters show each port as a function of its own with a port 1. Count these functions.
		for _, before := range ports[:i] {
			if p.pciPath != "" && before.pciPath == p.pciPath {
				p.port++
			}
		}
		nics[i] = p.nic
	}
	return nics
}

// adapterPath is the path of an adapter's function 0. NCCL attaches all functions and virtual functions of an adapter
// to it.
func adapterPath(p string) string {
	if !isBusID(path.Base(p)) {
		return p
	}
	return p[:len(p)-len("00.0")] + "00.0"
}

// verbsGUID reads b83f:d203:00a1:b2c4. Verbs keeps it in network order, and NCCL prints it as a number of the host.
func verbsGUID(s string) uint64 {
	return bits.ReverseBytes64(cnum.Uint(strings.ReplaceAll(s, ":", ""), 16))
}

// verbsMbps reads "400 Gb/sec (4X NDR)".
func verbsMbps(rate string) int {
	number, _, _ := strings.Cut(rate, " ")
	gbps, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0
	}
	return int(gbps * 1000)
}

// offersGDR reports whether verbs ports reach the memory of GPUs: by a peer-memory module, or by DMA-BUF. Only
// registering memory shows for sure whether DMA-BUF works, so the kernel's version and the kind of NVIDIA driver
// decide.
func offersGDR(fs sysfs) bool {
	for _, module := range []string{
		"/sys/kernel/mm/memory_peers/nv_mem/version",
		"/sys/kernel/mm/memory_peers/nv_mem_nc/version",
		"/sys/module/nvidia_peermem/version",
	} {
		if fs.exists(module) {
			return true
		}
	}
	major, minor, _ := strings.Cut(fs.read("/proc/sys/kernel/osrelease"), ".")
	kernel := cnum.Int(major, 10)*100 + cnum.Int(minor, 10)
	return kernel >= dmaBufKernel && strings.Contains(fs.read("/proc/driver/nvidia/version"), openModuleMarker)
}

// socketInterfaces lists the interfaces that NCCL's socket plugin takes without NCCL_SOCKET_IFNAME: those whose name
// starts with ib; else all but docker, lo and virbr; else the docker, lo or virbr interfaces, the first kind that
// exists.
func socketInterfaces(fs sysfs) (nics []nic) {
	running := runningInterfaces(fs)
	for _, kind := range []string{"ib", "", "docker", "lo", "virbr"} {
		for _, name := range running {
			if kindOf(name) == kind && len(nics) < maxSocketIfs {
				nics = append(nics, socketNIC(fs, name, len(nics)))
			}
		}
		if len(nics) > 0 {
			break
		}
	}
	return nics
}

// kindOf is how the name of an interface begins; "" for all that are not special.
func kindOf(name string) string {
	for _, kind := range []string{"ib", "docker", "lo", "virbr"} {
		if strings.HasPrefix(name, kind) {
			return kind
		}
	}
	return ""
}

func socketNIC(fs sysfs, name string, dev int) nic {
	mbps := int(cnum.Int(fs.read("/sys/class/net", name, "speed"), 0))
	if mbps <= 0 {
		mbps = socketMbps
	}
	return nic{name: name, pciPath: fs.realpath("/sys/class/net", name, "device"), guid: uint64(dev), mbps: mbps,
		maxComms: socketMaxComms}
}

// runningInterfaces lists the interfaces that are up, attached and have an IP address, in the kernel's order.
func runningInterfaces(fs sysfs) []string {
	const class = "/sys/class/net"
	addressed := addressedInterfaces(fs)
	var names []string
	for _, name := range fs.list(class) {
		flags := cnum.Uint(fs.read(class, name, "flags"), 16)
		state := fs.read(class, name, "operstate")
		if flags&ifUp == 0 || state != "up" && state != "unknown" {
			continue
		}
		if addressed != nil && name != "lo" && !addressed[name] {
			continue
		}
		names = append(names, name)
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Compare(cnum.Int(fs.read(class, a, "ifindex"), 10), cnum.Int(fs.read(class, b, "ifindex"), 10))
	})
	return names
}

// addressedInterfaces returns the interfaces with an IPv4 route or an IPv6 address; slaves of a bond have neither. It
// is nil if the kernel tells nothing.
func addressedInterfaces(fs sysfs) map[string]bool {
	v4, v6 := fs.read("/proc/net/route"), fs.read("/proc/net/if_inet6")
	if v4 == "" && v6 == "" {
		return nil
	}
	names := make(map[string]bool)
	for line := range strings.Lines(v4) {
		if f := strings.Fields(line); len(f) > 0 && f[0] != "Iface" {
			names[f[0]] = true
		}
	}
	for line := range strings.Lines(v6) {
		if f := strings.Fields(line); len(f) > 0 {
			names[f[len(f)-1]] = true
		}
	}
	return names
}
