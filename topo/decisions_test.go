package topo

import (
	"reflect"
	"testing"
)

func linksOf(t *testing.T, file, settings string) map[string]any {
	t.Helper()
	r, err := links(fixture(t, file), env(settings))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestP2P(t *testing.T) {
	yes, no := [][]int{{1, 1}, {1, 1}}, [][]int{{1, 0}, {0, 1}}
	never, always := [][]int{{0, 0}, {0, 0}}, [][]int{{0, 1}, {1, 0}}
	tests := []struct {
		file, env           string
		p2p, transport, shm [][]int
	}{
		{"pcie2.xml", "", no, never, always},
		{"pcie2.xml", "NCCL_P2P_LEVEL=SYS", yes, always, always},
		{"pcie2.xml", "NCCL_P2P_LEVEL=PHB", no, never, always},
		{"pcie2.xml", "NCCL_SHM_DISABLE=1", no, never, never},
		{"two_hosts.xml", "", yes, always, never},
		{"two_hosts.xml", "NCCL_P2P_DISABLE=1", no, never, never},
		// The default on AMD allows any distance between two GPUs.
		{"quirks.xml", "", yes, always, always},
	}
	for _, tt := range tests {
		r := linksOf(t, tt.file, tt.env)
		got, want := []any{r["p2p"], r["transportP2p"], r["transportShm"]}, []any{tt.p2p, tt.transport, tt.shm}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s %s: p2p, transport P2P, transport SHM are %v, want %v", tt.file, tt.env, got, want)
		}
	}
}

// Before NCCL 2.23.4, CPUs of Intel, Zhaoxin and Arm let no peer-to-peer through (src/graph/paths.cc).
func TestP2PThroughACPU(t *testing.T) {
	for _, c := range []struct {
		cpu  CPU
		want PathType
	}{
		{CPU{Arch: ArchX86, Vendor: VendorIntel}, PathPXB}, {CPU{Arch: ArchX86, Vendor: VendorZhaoxin}, PathPXB},
		{CPU{Arch: ArchARM}, PathPXB}, {CPU{Arch: ArchX86, Vendor: VendorAMD}, PathSYS}, {CPU{Arch: ArchPOWER}, PathSYS},
	} {
		s := build(t, fixture(t, "pcie2.xml"))
		*s.Nodes[NodeCPU][0].CPU = c.cpu
		s.NCCL = 22104
		if got := s.defaultP2PLevel(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.cpu, got, c.want)
		}
	}
}

func TestP2PThroughAnotherGPU(t *testing.T) {
	want := [][]int{{-1, -1, 1}, {-1, -1, -1}, {1, -1, -1}}
	if r := linksOf(t, "chain3.xml", ""); !reflect.DeepEqual(r["intermediate"], want) {
		t.Errorf("intermediate ranks %v, want %v", r["intermediate"], want)
	}
}

func TestGDR(t *testing.T) {
	off, on := int(GDROff), int(GDROn)
	tests := []struct {
		file, env  string
		recv, send int // of the first GPU and the first port
	}{
		{"nvswitch4.xml", "", on, on},
		{"nvswitch4.xml", "NCCL_NET_GDR_LEVEL=LOC", off, off},
		{"nvswitch4.xml", "NCCL_NET_GDR_READ=0", on, off},
		{"pcie2.xml", "", off, off},
		// Before Ampere, sending needs NVLink between GPUs or a request.
		{"pcie2.xml", "NCCL_NET_GDR_LEVEL=PHB", on, off},
		{"pcie2.xml", "NCCL_NET_GDR_LEVEL=3 NCCL_NET_GDR_READ=1", on, on},
		{"grace.xml", "", on, on},
		{"grace.xml", "NCCL_NET_GDR_C2C=0", off, off},
	}
	for _, tt := range tests {
		r := linksOf(t, tt.file, tt.env)
		recv, send := r["gdrRecv"].([][]int)[0][0], r["gdrSend"].([][]int)[0][0]
		if recv != tt.recv || send != tt.send {
			t.Errorf("%s %s: receive %d, send %d; want %d, %d", tt.file, tt.env,
				recv, send, tt.recv, tt.send)
		}
	}
}

func TestGDRThroughPCIOnC2CMachine(t *testing.T) {
	// A NIC and the GPU below one switch: the data does not take the C2C link.
	doc := fixture(t, "grace.xml")
	cpu := doc.Root.Child("cpu")
	devices := cpu.Children
	cpu.Children = nil
	sw := cpu.Add(NewElement("pci", "busid", "0000:09:00.0", "class", "0x060400", "link_speed", "32.0 GT/s PCIe",
		"link_width", "16"))
	sw.Children = devices
	r, err := links(doc, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	if got := GDRMode(r["gdrRecv"].([][]int)[0][0]); got != GDRPCI {
		t.Errorf("mode %d, want %d", got, GDRPCI)
	}
}

func TestGPUsShareNearPorts(t *testing.T) {
	r := linksOf(t, "nvswitch4.xml", "")
	if want := [][]int{{0, 0, 0, 0}, {0, 0, 0, 0}, {1, 1, 1, 1}, {1, 1, 1, 1}}; !reflect.DeepEqual(r["localNet"],
		want) {
		t.Errorf("ports by GPU and channel %v, want %v", r["localNet"], want)
	}
	if want := []int{0, 2}; !reflect.DeepEqual(r["localGpu"], want) {
		t.Errorf("GPUs of the ports %v, want %v", r["localGpu"], want)
	}
	// Width counts before distance: the first GPU's own ports are slow.
	r = linksOf(t, "quirks.xml", "")
	if r["localNet"].([][]int)[0][0] != 2 {
		t.Errorf("port of the first GPU is %d, want the wide one, 2", r["localNet"].([][]int)[0][0])
	}
}

func TestNetBetweenSockets(t *testing.T) {
	// Without NVLink, each pair of GPUs reaches its NIC at 48 GB/s and the other pair at 22.
	doc := fixture(t, "nvswitch4.xml")
	for e := range doc.Root.All() {
		if e.Name == "gpu" {
			e.Children = nil
		}
	}
	for settings, want := range map[string][]int{"": {0, 1}, "NCCL_NET_DISABLE_INTRA=1": {0, 1, 2, 3}} {
		r, err := links(doc, env(settings))
		if err != nil {
			t.Fatal(err)
		}
		if left := r["afterTrimSingle"].(map[string]any)["ranks"]; !reflect.DeepEqual(left, want) {
			t.Errorf("%q: ranks %v left, want %v", settings, left, want)
		}
	}
}

func TestMirrorBits(t *testing.T) {
	for i, want := range []int{0, 4, 2, 6, 1, 5, 3, 7} {
		if got := mirrorBits(i, 8); got != want {
			t.Errorf("mirrorBits(%d, 8) = %d, want %d", i, got, want)
		}
	}
	if got := mirrorBits(5, 1); got != 0 {
		t.Errorf("mirrorBits(5, 1) = %d, want 0", got)
	}
}

func TestSettingsFromEnv(t *testing.T) {
	tests := []struct {
		env  string
		want Settings
	}{
		{"", Settings{}},
		{"NCCL_P2P_LEVEL=NVL NCCL_NET_GDR_LEVEL=PHB", Settings{P2PLevel: UpTo(PathNVL), GDRLevel: UpTo(PathPHB)}},
		{"NCCL_P2P_LEVEL=nvl NCCL_NET_GDR_LEVEL=NET", Settings{}}, // not known to NCCL
		{"NCCL_P2P_LEVEL=3", Settings{P2PLevel: UpTo(PathPHB)}},
		{"NCCL_P2P_LEVEL=99", Settings{P2PLevel: UpTo(PathSYS)}},
		{"NCCL_P2P_LEVEL=SYS NCCL_P2P_DISABLE=1", Settings{P2PLevel: UpTo(PathLOC)}},
		{"NCCL_P2P_DISABLE=0 NCCL_PXN_DISABLE=2 NCCL_SHM_DISABLE=0", Settings{}},
		{"NCCL_NET_GDR_READ=1", Settings{GDRRead: ToggleOn}},
		{"NCCL_NET_GDR_READ=0", Settings{GDRRead: ToggleOff}},
		{"NCCL_NET_GDR_READ=-2", Settings{}},
		{"NCCL_NET_GDR_C2C=0 NCCL_PXN_C2C=0", Settings{GDRC2CDisable: true, PXNC2CDisable: true}},
		{"NCCL_NET_GDR_C2C=1 NCCL_PXN_C2C=1", Settings{}},
		{"NCCL_PXN_DISABLE=1 NCCL_NVB_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_NET_DISABLE_INTRA=1",
			Settings{PXNDisable: true, NVBDisable: true, SHMDisable: true, NetDisableIntra: true}},
		{"NCCL_NVB_DISABLE=99999999999999999999", Settings{}},
		{"NCCL_NETDEVS_POLICY=max:2", Settings{NetDevs: NetDevs{Max: 2}}},
		{"NCCL_NETDEVS_POLICY=ALL", Settings{NetDevs: NetDevs{All: true}}},
		{"NCCL_NETDEVS_POLICY=MAX:0 NCCL_NET_GDR_MLOPART=1", Settings{GDRMLOPart: true}},
	}
	for _, tt := range tests {
		if got := env(tt.env); got != tt.want {
			t.Errorf("%q: %+v, want %+v", tt.env, got, tt.want)
		}
	}
}
