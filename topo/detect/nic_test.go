package detect

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

func TestDetectNICsTellsWhatANetPluginTells(t *testing.T) {
	m := twoSockets(t)
	got := NICs(m.root)
	const first = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:02.0/0000:05:00.0"
	want := []topo.NIC{
		{Name: "mlx5_0", Plugin: "IB", PCIPath: first, BusID: "0000:05:00.0", GUID: 0xc4b2a10003d23fb8, Port: 1,
			Mbps: 200000, MaxComms: 131072, PtrSupport: topo.PtrHost | topo.PtrCUDA, InUse: true},
		{Name: "mlx5_1", Plugin: "IB", PCIPath: first, BusID: "0000:05:00.0", GUID: 0xc4b2a10003d23fb8, Port: 2,
			Mbps: 200000, MaxComms: 131072, PtrSupport: topo.PtrHost | topo.PtrCUDA, InUse: true},
		{Name: "mlx5_2", Plugin: "IB",
			PCIPath: "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:02.0/0000:85:00.0",
			BusID:   "0000:85:00.0", GUID: 0xffffa10003d23fb8, Port: 1,
			Mbps: 400000, MaxComms: 131072, PtrSupport: topo.PtrHost | topo.PtrCUDA, InUse: true},
		{Name: "eno1", Plugin: "Socket", PCIPath: "/sys/devices/pci0000:00/0000:00:1c.0/0000:06:00.0",
			BusID: "0000:06:00.0", Mbps: 25000, MaxComms: 65536,
			PtrSupport: topo.PtrHost},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// The table of NICs can be had from a file too, as far as the file tells.
func TestNICsOfADocument(t *testing.T) {
	m := twoSockets(t)
	doc, err := machine(m.root, fourA100())
	if err != nil {
		t.Fatal(err)
	}
	got := doc.NICs()
	want := NICs(m.root)[:3]
	for i := range want {
		want[i].Plugin, want[i].PCIPath = "", ""
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

func TestDetectNICsWithoutAny(t *testing.T) {
	if got := NICs(t.TempDir()); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}

// A bond of two cards is one interface: its slaves have no address. Down interfaces and bridges of virtual machines
// are left out as long as there is something better.
func TestSocketInterfacesAreThoseNCCLPicks(t *testing.T) {
	const routes = "Iface\tDestination\tGateway\nbond0\t00000000\t0101A8C0\n"
	tests := []struct {
		name string
		ifs  map[string]string // name -> operstate
		want []string
	}{
		{"bond", map[string]string{"lo": "unknown", "eth0": "up", "eth1": "up", "bond0": "up"}, []string{"bond0"}},
		{"IP over InfiniBand first", map[string]string{"bond0": "up", "ibp12s0": "up"}, []string{"ibp12s0"}},
		{"down", map[string]string{"bond0": "down", "docker0": "up", "virbr0": "up"}, []string{"docker0"}},
		{"loopback", map[string]string{"lo": "unknown", "virbr0": "up"}, []string{"lo"}},
		{"last resort", map[string]string{"virbr0": "up"}, []string{"virbr0"}},
		{"none", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newFakeMachine(t)
			m.write("/proc/net/route", routes)
			m.write("/proc/net/if_inet6",
				"fe80 0b 40 20 80 ibp12s0\nfe80 0c 40 20 80 docker0\nfe80 0d 40 20 80 virbr0\n")
			for name, state := range tt.ifs {
				m.netif("", name, state, 1, "")
			}
			var got []string
			for _, n := range NICs(m.root) {
				got = append(got, n.Name)
				if !n.InUse || n.Mbps != 10000 {
					t.Errorf("%+v: want it in use, at NCCL's 10 Gbit/s for an unknown speed", n)
				}
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestDMABUFNeedsKernelAndDriver(t *testing.T) {
	const open = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15"
	const closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15"
	for _, tt := range []struct {
		kernel, driver string
		want           topo.PtrSupport
	}{
		{"6.8.0-40-generic", open, topo.PtrHost | topo.PtrDMABUF},
		{"5.12.1", open, topo.PtrHost | topo.PtrDMABUF},
		{"5.4.0", open, topo.PtrHost},
		{"6.8.0", closed, topo.PtrHost},
	} {
		m := newFakeMachine(t)
		m.write("/proc/sys/kernel/osrelease", tt.kernel+"\n")
		m.write("/proc/driver/nvidia/version", tt.driver+"\n")
		if got := verbsPtrSupport(newSysfs(m.root)); got != tt.want {
			t.Errorf("%s, %s: %v, want %v", tt.kernel, tt.driver, got, tt.want)
		}
	}
}

func TestVerbsRates(t *testing.T) {
	for rate, want := range map[string]int{
		"400 Gb/sec (4X NDR)": 400000, "56 Gb/sec (4X FDR)": 56000, "2.5 Gb/sec (1X SDR)": 2500, "": 0, "fast": 0,
	} {
		if got := verbsMbps(rate); got != want {
			t.Errorf("%q: %d Mbit/s, want %d", rate, got, want)
		}
	}
}

func ExamplePtrSupport() {
	p := topo.PtrHost | topo.PtrDMABUF
	fmt.Println(p, p.GDR(), topo.PtrHost.GDR())
	// Output: host+dmabuf true false
}
