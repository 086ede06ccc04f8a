package detect

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// fakeMachine builds the files of a fake machine below a temporary directory.
type fakeMachine struct {
	t    *testing.T
	root string
}

// machine describes the machine below root without a file.
func machine(root string, nvml NVML) (*topo.Document, error) {
	return detect(newSysfs(root), nvml, nil)
}

func newFakeMachine(t *testing.T) *fakeMachine { return &fakeMachine{t, t.TempDir()} }

func (m *fakeMachine) write(path, text string) {
	m.t.Helper()
	full := filepath.Join(m.root, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o777); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o666); err != nil {
		m.t.Fatal(err)
	}
}

// link makes a relative symbolic link, as sysfs has them.
func (m *fakeMachine) link(path, target string) {
	m.t.Helper()
	full := filepath.Join(m.root, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o777); err != nil {
		m.t.Fatal(err)
	}
	rel, err := filepath.Rel(filepath.Dir(path), target)
	if err != nil {
		m.t.Fatal(err)
	}
	if err := os.Symlink(rel, full); err != nil {
		m.t.Fatal(err)
	}
}

// pci adds a PCI device below /sys/devices. attributes are name=value.
func (m *fakeMachine) pci(path string, attributes ...string) {
	m.t.Helper()
	dir := "/sys/devices/" + path
	for _, a := range attributes {
		name, value, _ := strings.Cut(a, "=")
		m.write(dir+"/"+name, value+"\n")
	}
	m.write("/sys/bus/pci/uevent", "")
	m.link(dir+"/subsystem", "/sys/bus/pci")
	m.link("/sys/bus/pci/devices/"+filepath.Base(path), dir)
}

func (m *fakeMachine) bridge(path, numa string) {
	m.t.Helper()
	m.pci(path, "class=0x060400", "vendor=0x10b5", "device=0x8796", "subsystem_vendor=0x10b5",
		"subsystem_device=0x8796",
		"max_link_speed=16.0 GT/s PCIe", "max_link_width=16", "numa_node="+numa)
}

func (m *fakeMachine) gpu(path, numa string) {
	m.t.Helper()
	m.pci(path, "class=0x030200", "vendor=0x10de", "device=0x20b0", "max_link_speed=16.0 GT/s PCIe",
		"max_link_width=16", "numa_node="+numa)
}

// mlx adds one function of an adapter with its verbs port.
func (m *fakeMachine) mlx(path, numa, name, guid, state, rate string) {
	m.t.Helper()
	m.pci(path, "class=0x020700", "vendor=0x15b3", "device=0x101b", "subsystem_vendor=0x15b3",
		"subsystem_device=0x0007",
		"max_link_speed=16.0 GT/s PCIe", "max_link_width=16", "numa_node="+numa)
	dir := "/sys/devices/" + path + "/infiniband/" + name
	m.write(dir+"/sys_image_guid", guid+"\n")
	m.write(dir+"/ports/1/state", state+"\n")
	m.write(dir+"/ports/1/rate", rate+"\n")
	m.write(dir+"/ports/1/link_layer", "InfiniBand\n")
	m.link(dir+"/device", "/sys/devices/"+path)
	m.link("/sys/class/infiniband/"+name, dir)
}

// netif adds an interface; device is its directory below /sys/devices, "" for a virtual one.
func (m *fakeMachine) netif(device, name, operstate string, index int, speed string) {
	m.t.Helper()
	dir := "/sys/devices/virtual/net/" + name
	if device != "" {
		dir = "/sys/devices/" + device + "/net/" + name
		m.link(dir+"/device", "/sys/devices/"+device)
	}
	m.write(dir+"/flags", "0x1003\n")
	m.write(dir+"/operstate", operstate+"\n")
	m.write(dir+"/ifindex", fmt.Sprintln(index))
	m.write(dir+"/speed", speed+"\n")
	m.link("/sys/class/net/"+name, dir)
}

const xeon = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 106\nmodel name\t: Xeon\n\n" +
	"processor\t: 1\nmodel\t\t: 1\n"

// twoSockets is a machine with, on each socket, a PCI switch over two GPUs and an adapter. The adapter of the first has
// two ports; there is an Ethernet card too.
func twoSockets(t *testing.T) *fakeMachine {
	m := newFakeMachine(t)
	m.write("/proc/cpuinfo", xeon)
	m.write("/proc/sys/kernel/osrelease", "6.8.0-40-generic\n")
	m.write("/sys/module/nvidia_peermem/version", "550.54.15\n")
	m.write("/sys/devices/system/node/node0/cpumap", "00000000,ffffffff\n")
	m.write("/sys/devices/system/node/node1/cpumap", "ffffffff,00000000\n")
	for numa, bus := range []string{"0", "8"} {
		n := fmt.Sprint(numa)
		up := fmt.Sprintf("pci0000:%[1]s0/0000:%[1]s0:01.0/0000:%[1]s1:00.0", bus)
		m.bridge(filepath.Dir(up), n)
		m.bridge(up, n)
		for port := range 3 {
			m.bridge(fmt.Sprintf("%s/0000:%s2:%02x.0", up, bus, port), n)
		}
		m.gpu(fmt.Sprintf("%[1]s/0000:%[2]s2:00.0/0000:%[2]s3:00.0", up, bus), n)
		m.gpu(fmt.Sprintf("%[1]s/0000:%[2]s2:01.0/0000:%[2]s4:00.0", up, bus), n)
	}
	first := "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:02.0/0000:05:00"
	m.mlx(first+".0", "0", "mlx5_0", "b83f:d203:00a1:b2c4", "4: ACTIVE", "200 Gb/sec (4X HDR)")
	m.mlx(first+".1", "0", "mlx5_1", "b83f:d203:00a1:b2c4", "4: ACTIVE", "200 Gb/sec (4X HDR)")
	m.mlx("pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:02.0/0000:85:00.0", "1", "mlx5_2", "b83f:d203:00a1:ffff",
		"4: ACTIVE", "400 Gb/sec (4X NDR)")
	m.mlx("pci0000:80/0000:80:02.0/0000:86:00.0", "1", "mlx5_3", "b83f:d203:00a1:eeee", "1: DOWN", "10 Gb/sec (4X SDR)")

	m.pci("pci0000:00/0000:00:1c.0", "class=0x060400", "numa_node=0")
	eth := "pci0000:00/0000:00:1c.0/0000:06:00.0"
	m.pci(eth, "class=0x020000", "vendor=0x8086", "device=0x1563", "max_link_speed=8.0 GT/s PCIe", "max_link_width=4",
		"numa_node=0")
	m.netif(eth, "eno1", "up", 2, "25000")
	m.netif("", "lo", "unknown", 1, "")
	m.netif("", "docker0", "down", 7, "")
	m.netif("", "virbr0", "up", 8, "")
	return m
}

// fakeNVML is a driver with the given GPUs.
type fakeNVML struct {
	devices []NVMLDevice
	err     error
}

func (f fakeNVML) Devices() ([]NVMLDevice, error) { return f.devices, f.err }

// fourA100 are the GPUs of twoSockets: pairs with twelve NVLinks within a socket.
func fourA100() fakeNVML {
	busIDs := []string{"0000:03:00.0", "0000:04:00.0", "0000:83:00.0", "0000:84:00.0"}
	var f fakeNVML
	for i, id := range busIDs {
		f.devices = append(f.devices, NVMLDevice{
			Index: i, Name: "NVIDIA A100-SXM4-40GB", BusID: id, Vendor: 0x10de, Device: 0x20b0, SubVendor: 0x10de,
			SubDevice: 0x134f, ComputeCap: 80, LinkGen: 4, LinkWidth: 16,
			NVLinks: slices.Repeat([]string{busIDs[i^1]}, 12),
		})
	}
	return f
}

func checkXML(t *testing.T, doc *topo.Document, file string) {
	t.Helper()
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := doc.Write(&got); err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%s\nwant %s", got.String(), file)
	}
}

func TestDetectDescribesTheMachineAsNCCLDoes(t *testing.T) {
	doc, err := machine(twoSockets(t).root, fourA100())
	if err != nil {
		t.Fatal(err)
	}
	checkXML(t, doc, "testdata/two_sockets.xml")
}

func TestDetectInAVirtualMachine(t *testing.T) {
	m := newFakeMachine(t)
	m.write("/proc/cpuinfo", "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\n")
	// The GPU hangs off the root complex without a NUMA node or link; the other end of its NVLinks is hidden.
	m.pci("pci0001:00/0001:00:00.0", "class=0x030200", "vendor=0x10de", "numa_node=-1")
	m.netif("", "lo", "unknown", 1, "")
	m.write("/sys/devices/pci0000:00/0000:00:03.0/virtio2/modalias", "virtio:d1")
	m.link("/sys/devices/pci0000:00/0000:00:03.0/virtio2/subsystem", "/sys/bus/virtio")
	m.write("/sys/bus/virtio/uevent", "")
	m.netif("pci0000:00/0000:00:03.0/virtio2", "eth0", "up", 2, "-1")
	nvml := fakeNVML{devices: []NVMLDevice{
		{BusID: "0001:00:00.0", ComputeCap: 90, Vendor: 0x10de, Device: 0x2330, NVLinks: make([]string, 18)},
		{Index: 1, BusID: "0002:00:00.0", ComputeCap: 90, Vendor: 0x10de, Device: 0x2330, C2CLinks: 5, C2CMBps: 44712},
	}}
	doc, err := machine(m.root, nvml)
	if err != nil {
		t.Fatal(err)
	}
	checkXML(t, doc, "testdata/vm.xml")
}

// A NIC on a port of the CPU itself, and a Broadcom switch whose other half is known to its driver.
func TestPCIDevicesAreDescribedAsNCCLDoes(t *testing.T) {
	m := twoSockets(t)
	m.pci("pci0000:40/0000:40:01.0", "class=0x020000", "vendor=0x15b3", "max_link_speed=32.0 GT/s PCIe",
		"max_link_width=16",
		"numa_node=1")
	m.pci("pci0000:50/0000:50:01.0/0000:51:00.0", "class=0x060400", "vendor=0x1000", "device=0xc030",
		"max_link_speed=32.0 GT/s PCIe",
		"max_link_width=16", "numa_node=0")
	m.pci("pci0000:50/0000:50:01.0", "max_link_speed=Unknown", "max_link_width=8")
	m.write("/sys/kernel/pci_switch_link/virtual_switch_links/0000:51:00.0/0000:01:00.0", "")
	m.write("/sys/kernel/pci_switch_link/virtual_switch_links/0000:51:00.0/0000:ff:00.0", "") // not there
	d := &detector{fs: newSysfs(m.root), root: topo.NewElement("system")}
	for busID, want := range map[string]*topo.Element{
		// No width at the upper end makes 0, which NCCL then takes for 16.
		"0000:40:01.0": topo.NewElement("pci", "busid", "0000:40:01.0", "class", "0x020000", "vendor", "0x15b3",
			"link_speed", "32.0 GT/s PCIe", "link_width", "0"),
		"0000:51:00.0": topo.NewElement("pci", "busid", "0000:51:00.0", "class", "0x060400", "vendor", "0x1000",
			"device", "0xc030",
			"link_speed", "32.0 GT/s PCIe", "link_width", "8"),
		"0000:99:00.0": topo.NewElement("pci", "busid", "0000:99:00.0", "class", "0x02", "link_speed", "",
			"link_width", ""),
	} {
		got := d.pci(busID, classNetwork)
		if !reflect.DeepEqual(got.Attrs, want.Attrs) {
			t.Errorf("%s: %v\nwant %v", busID, got.Attrs, want.Attrs)
		}
		if numa, _ := d.parent(got).Attr("numaid"); numa != map[string]string{"0000:40:01.0": "1", "0000:51:00.0": "0",
			"0000:99:00.0": "-1"}[busID] {
			t.Errorf("%s is on NUMA node %s", busID, numa)
		}
	}
	links := d.pci("0000:51:00.0", classNetwork).Children
	if len(links) != 1 || links[0].Name != "pcilink" ||
		!reflect.DeepEqual(links[0].Attrs, topo.Attrs("target", "0000:01:00.0")) {
		t.Errorf("links of the switch: %v", links)
	}
}

func TestDetectWithoutGPUSaysWhy(t *testing.T) {
	noDriver := errors.New("libnvidia-ml.so.1: no such file")
	tests := []struct {
		name string
		root string
		nvml NVML
		want string
	}{
		{"nothing", t.TempDir(), fakeNVML{err: noDriver},
			"no usable NVIDIA GPU: none on the PCI bus, and NVIDIA's driver cannot be asked (libnvidia-ml.so.1: no " +
				"such file); " +
				"for another machine give its topology file in NCCL_TOPO_FILE"},
		{"hidden from the driver", twoSockets(t).root, fakeNVML{},
			"no usable NVIDIA GPU: 4 on the PCI bus, and NVIDIA's driver knows none; " +
				"is the driver installed, and are its libraries and devices visible here (container)?"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := machine(tt.root, tt.nvml)
			if !errors.Is(err, ErrNoGPU) || err.Error() != tt.want {
				t.Errorf("error %q\nwant  %q", err, tt.want)
			}
		})
	}
	if _, err := machine(t.TempDir(), fakeNVML{err: noDriver}); !errors.Is(err, noDriver) {
		t.Errorf("the cause is lost: %v", err)
	}
}

func TestDetectOnAnUnknownProcessor(t *testing.T) {
	m := newFakeMachine(t)
	m.write("/proc/cpuinfo", "processor\t: 0\nhart\t: 0\nisa\t: rv64imafdc\n")
	if _, err := machine(m.root, fourA100()); err == nil ||
		!strings.Contains(err.Error(), "/proc/cpuinfo: not an x86-64") {
		t.Errorf("error %v", err)
	}
}

func TestDetectOnThisMachine(t *testing.T) {
	doc, err := machine("/", NVMLLibrary{})
	if errors.Is(err, ErrNoGPU) {
		t.Skipf("nothing to detect here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := doc.Write(&out); err != nil {
		t.Fatal(err)
	}
	if _, err := topo.Read("detected", &out); err != nil {
		t.Errorf("what was detected cannot be read back: %v", err)
	}
}

func TestCPUFamilyIsNCCLs(t *testing.T) {
	tests := []struct {
		cpuinfo string
		want    cpuInfo
	}{
		{xeon, cpuInfo{"x86_64", "GenuineIntel", 6, 106}},
		{"vendor_id\t: AuthenticAMD\ncpu family\t: 23\nmodel\t\t: 49\n", cpuInfo{"x86_64", "AuthenticAMD", 143, 49}},
		{"vendor_id\t:   Shanghai  \ncpu family\t: 7\nmodel\t\t: 91\n", cpuInfo{"x86_64", "  Shanghai  ", 7, 91}},
		{"processor\t: 0\nCPU implementer\t: 0x41\n", cpuInfo{arch: "arm64"}},
		{"processor\t: 0\ncpu\t\t: POWER9, altivec supported\n", cpuInfo{arch: "ppc64"}},
	}
	for _, tt := range tests {
		got, err := parseCPUInfo(tt.cpuinfo)
		if err != nil || got != tt.want {
			t.Errorf("%q: %+v, %v; want %+v", tt.cpuinfo, got, err, tt.want)
		}
	}
}
