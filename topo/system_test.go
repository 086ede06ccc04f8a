package topo

import (
	"path/filepath"
	"strings"
	"testing"
)

func fixture(t testing.TB, name string) *Document {
	t.Helper()
	doc, err := ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func build(t testing.TB, doc *Document) *System {
	t.Helper()
	s, err := Build(doc, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// node finds a node by its printed name, such as "GPU/0-1000".
func (s *System) node(t testing.TB, name string) *Node {
	t.Helper()
	for _, nodes := range s.Nodes {
		for _, n := range nodes {
			if n.Name() == name {
				return n
			}
		}
	}
	t.Fatalf("no node %s", name)
	return nil
}

func TestBuildTakesVendorsFiles(t *testing.T) {
	s := build(t, fixture(t, "quirks.xml"))
	var names []string
	for _, nodes := range s.Nodes {
		for _, n := range nodes {
			names = append(names, n.Name())
		}
	}
	// The lower level of the BCM switch is gone, and so are GPUs and ports without rank or device number, and GPUs
	// and NICs that hold nothing. A disk (25) counts as a bridge.
	const want = "GPU/0-12000 GPU/0-22000 PCI/0-10000 PCI/0-20000 PCI/0-21000 PCI/0-25000 CPU/0-ffffffffffffff " +
		"NIC/0-15000 NIC/0-23000 NET/0-0 NET/0-1 NET/0-2 DEV/0-12000 DEV/0-22000"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("nodes\n%s\nwant\n%s", got, want)
	}

	links := map[string]float32{ // of the last link, which is the uplink
		"PCI/0-10000": 12, // speed unknown: 8 GT/s; width 0: 16 lanes
		"DEV/0-12000": 12, // speed unknown
		"NIC/0-15000": 12, // 16 GT/s on 8 lanes
		"PCI/0-20000": 24,
	}
	for name, bw := range links {
		n := s.node(t, name)
		if up := n.Links[len(n.Links)-1]; up.BW != bw || up.Type != LinkPCI {
			t.Errorf("uplink of %s is %s %g, want PCI %g", name, up.Type, up.BW, bw)
		}
	}

	first, second, third := s.node(t, "NET/0-0").Net, s.node(t, "NET/0-1").Net, s.node(t, "NET/0-2").Net
	if first.GUID != second.GUID || first.GUID == third.GUID {
		t.Errorf("GUIDs %x %x %x: want those of the two ports to be equal", first.GUID, second.GUID, third.GUID)
	}
	if first.BW != 1.25 || second.BW != 1.25 || third.BW != 25 {
		t.Errorf("port bandwidths %g %g %g, want 1.25 for -1 and for no speed, and 25", first.BW, second.BW, third.BW)
	}
}

func TestBuildReportsAllErrorsByLine(t *testing.T) {
	const file = `<system version="1">
<cpu arch="x86_64" vendor="GenuineIntel">
<pci busid="0000:01:00.1" class="0x03"><gpu rank="0" dev="0" sm="80" gdr="1"/></pci>
<pci class="0x060400"/>
<pci busid="0000:02:00.0" class="0x060400"><gpu rank="1" dev="1" sm="80" gdr="1"/></pci>
<pci busid="0000:03:00.0" class="0x03"><gpu rank="1" dev="1" sm="80"><nvlink/></gpu></pci>
<pci busid="0000:04:00.0" class="0x03"><pcilink target="0000:02:00.0"/></pci>
</cpu>
</system>`
	doc, err := Read("f.xml", strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Build(doc, Settings{})
	if err == nil {
		t.Fatal("no error")
	}
	const want = `f.xml:2: <cpu> has no familyid
f.xml:2: <cpu> has no modelid
f.xml:2: <cpu> has no numaid
f.xml:3: busid of a GPU must be a multiple of 4 (got 0x1001)
f.xml:4: <pci> has no busid
f.xml:5: gpu in a PCI device of class "0x060400", want 0x03...
f.xml:6: rank 1 is given to two GPUs
f.xml:6: <gpu> has no gdr
f.xml:6: <nvlink> has no count
f.xml:6: <nvlink> has no tclass
f.xml:7: pcilink of 0000:04:00.0, which is no PCI switch of this system`
	if err.Error() != want {
		t.Errorf("errors\n%v\nwant\n%s", err, want)
	}
}

func TestBuildStopsListingErrors(t *testing.T) {
	doc := &Document{File: "f.xml", Root: NewElement("system", "version", "1")}
	for i := range 30 {
		doc.Root.Add(&Element{Name: "cpu", Line: i + 1})
	}
	_, err := Build(doc, Settings{})
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != maxErrors+1 || lines[maxErrors] != "f.xml: 40 more errors" {
		t.Errorf("%d lines, the last is %q", len(lines), lines[len(lines)-1])
	}
}

func TestBuildWithoutCPU(t *testing.T) {
	_, err := Build(&Document{File: "f.xml", Root: NewElement("system")}, Settings{})
	if err == nil || !strings.Contains(err.Error(), "no <cpu> element") {
		t.Errorf("error %v", err)
	}
}

func TestSplitGPUIsTwoDevices(t *testing.T) {
	doc := fixture(t, "grace.xml")
	pci := doc.Root.Find("pci", "busid", "0000:01:00.0")
	whole := pci.Child("gpu")
	whole.Set("mlopart", "0")
	half := pci.Add(NewElement("gpu", "dev", "0", "sm", "90", "rank", "1", "gdr", "1", "mlopart", "1"))
	half.Add(NewElement("c2c", "bw", "44712", "count", "10"))

	s := build(t, doc)
	a, b, bridge := s.node(t, "DEV/0-1001"), s.node(t, "DEV/0-1003"), s.node(t, "CXB/0-1000")
	if l := a.LinkTo(b, LinkLOC); l == nil || l.BW != 2618 {
		t.Errorf("link between the halves: %+v", l)
	}
	for _, n := range []*Node{a, b, s.Nodes[NodeCPU][0]} {
		if l := n.LinkTo(bridge, LinkC2C); l == nil || l.BW != 447.12 {
			t.Errorf("C2C of %s: %+v", n.Name(), l)
		}
	}

	s, err := Build(doc, Settings{WholeMLOPart: true})
	if err != nil {
		t.Fatal(err)
	}
	if dev := s.node(t, "DEV/0-1000").Dev; dev.NGPUs != 2 || len(s.Nodes[NodeDEV]) != 1 {
		t.Errorf("device %+v of %d, want one with two ranks", dev, len(s.Nodes[NodeDEV]))
	}
	if gpus := s.Nodes[NodeGPU]; len(gpus) != 2 || gpus[0].ID.Local() != 0x1000 || gpus[1].ID.Local() != 1<<40|0x1000 {
		t.Errorf("GPUs %v, want two of one device", gpus)
	}
}

func TestInterCPUBandwidth(t *testing.T) {
	for _, tt := range []struct {
		cpu  CPU
		want float32
	}{
		{CPU{Arch: ArchX86, Vendor: VendorIntel, Model: intelModel(6, 79, 0)}, 6},
		{CPU{Arch: ArchX86, Vendor: VendorIntel, Model: intelModel(6, 106, 0)}, 10},
		{CPU{Arch: ArchX86, Vendor: VendorIntel, Model: intelModel(6, 143, 0)}, 22},
		{CPU{Arch: ArchX86, Vendor: VendorIntel, Model: intelModel(6, 207, 0)}, 40},
		{CPU{Arch: ArchX86, Vendor: VendorIntel, Model: intelModel(6, 0x54, 0)}, 6},
		{CPU{Arch: ArchX86, Vendor: VendorIntel, Model: intelModel(6, 0x55, 0)}, 10},
		{CPU{Arch: ArchX86, Vendor: VendorIntel, Model: intelModel(6, 0x8e, 0)}, 10},
		{CPU{Arch: ArchX86, Vendor: VendorIntel, Model: intelModel(6, 0xce, 0)}, 22},
		{CPU{Arch: ArchX86, Vendor: VendorIntel, Model: intelModel(5, 0xcf, 0)}, 6},
		{CPU{Arch: ArchX86, Vendor: VendorIntel, Model: intelModel(6, 0xcf, 22601)}, 10},
		{CPU{Arch: ArchX86, Vendor: VendorIntel, Model: intelModel(6, 0xcf, 22602)}, 40},
		{CPU{Arch: ArchX86, Vendor: VendorIntel, Model: intelModel(6, 0xad, 23007)}, 22},
		{CPU{Arch: ArchX86, Vendor: VendorIntel, Model: intelModel(6, 0xac, 23100)}, 22},
		{CPU{Arch: ArchX86, Vendor: VendorIntel, Model: intelModel(6, 0xad, 23100)}, 40},
		{CPU{Arch: ArchX86, Vendor: VendorIntel, Model: intelModel(6, 0xaf, 23100)}, 40},
		{CPU{Arch: ArchX86, Vendor: VendorIntel, Model: intelModel(6, 0xb0, 23100)}, 22},
		{CPU{Arch: ArchX86, Vendor: VendorAMD, Model: -1}, 16},
		{CPU{Arch: ArchX86, Vendor: VendorAMD, Model: amdModel(23)}, 16},
		{CPU{Arch: ArchX86, Vendor: VendorAMD, Model: amdModel(0x8f)}, 16},
		{CPU{Arch: ArchX86, Vendor: VendorAMD, Model: amdModel(25)}, 24},
		{CPU{Arch: ArchX86, Vendor: VendorAMD, Model: amdModel(0xaf)}, 24},
		{CPU{Arch: ArchX86, Vendor: VendorAMD, Model: amdModel(26)}, 32},
		{CPU{Arch: ArchX86, Vendor: VendorAMD, Model: amdModel(0xbf)}, 32},
		{CPU{Arch: ArchX86, Vendor: VendorZhaoxin, Model: zhaoxinModel(7, 0x5b)}, 9},
		{CPU{Arch: ArchX86, Vendor: VendorZhaoxin, Model: zhaoxinModel(7, 0x3b)}, 6},
		{CPU{Arch: ArchX86}, 5000},
		{CPU{ArchPOWER, -1, -1}, 32},
		{CPU{ArchARM, -1, -1}, 6},
		{CPU{}, 5000},
	} {
		if got := interCPUBW(&tt.cpu); got != tt.want {
			t.Errorf("%+v: %g GB/s, want %g", tt.cpu, got, tt.want)
		}
	}
}

// The constants are those of NCCL's graph/topo.h.
func TestNVLinkBandwidth(t *testing.T) {
	for sm, want := range map[int]float32{50: 20, 60: 18, 70: 20, 75: 20, 80: 20, 86: 12, 89: 20, 90: 20.6, 100: 40.1,
		120: 40.1} {
		if got := nvLinkBW(sm, 0); got != want {
			t.Errorf("compute capability %d: %g GB/s, want %g", sm, got, want)
		}
	}
}
