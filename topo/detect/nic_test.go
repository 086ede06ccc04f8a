package detect

import (
	"reflect"
	"testing"
)

func TestDetectNICsTellsWhatANetPluginTells(t *testing.T) {
	m := twoSockets(t)
	got := detectNICs(newSysfs(m.root))
	const first = "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:02.0/0000:05:00.0"
	want := []nic{
		{name: "mlx5_0", pciPath: first, guid: 0xc4b2a10003d23fb8, port: 1, mbps: 200000, maxComms: 131072, gdr: true},
		{name: "mlx5_1", pciPath: first, guid: 0xc4b2a10003d23fb8, port: 2, mbps: 200000, maxComms: 131072, gdr: true},
		{name: "mlx5_2", pciPath: "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0/0000:82:02.0/0000:85:00.0",
			guid: 0xffffa10003d23fb8, port: 1, mbps: 400000, maxComms: 131072, gdr: true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
	sockets := []nic{{name: "eno1", pciPath: "/sys/devices/pci0000:00/0000:00:1c.0/0000:06:00.0", mbps: 25000,
		maxComms: 65536}}
	if got := socketInterfaces(newSysfs(m.root)); !reflect.DeepEqual(got, sockets) {
		t.Errorf("got\n%+v\nwant\n%+v", got, sockets)
	}
}

func TestDetectNICsWithoutAny(t *testing.T) {
	if got := detectNICs(newSysfs(t.TempDir())); len(got) != 0 {
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
			for _, n := range detectNICs(newSysfs(m.root)) {
				got = append(got, n.name)
				if n.mbps != 10000 {
					t.Errorf("%+v: want NCCL's 10 Gbit/s for an unknown speed", n)
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
		want           bool
	}{
		{"6.8.0-40-generic", open, true},
		{"5.12.1", open, true},
		{"5.4.0", open, false},
		{"6.8.0", closed, false},
	} {
		m := newFakeMachine(t)
		m.write("/proc/sys/kernel/osrelease", tt.kernel+"\n")
		m.write("/proc/driver/nvidia/version", tt.driver+"\n")
		if got := offersGDR(newSysfs(m.root)); got != tt.want {
			t.Errorf("%s, %s: %t, want %t", tt.kernel, tt.driver, got, tt.want)
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
