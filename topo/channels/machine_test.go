package channels

import (
	"fmt"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// machine describes a test system: GPUs in equal groups below PCI switches, one NIC per group at most, groups spread
// over the CPUs.
type machine struct {
	cpus, groups, gpusPerGroup int

	sm       int
	cpu      []string // attributes of the CPUs
	pci      string   // link speed of everything
	nvSwitch int      // NVLinks of each GPU to the switch
	bridges  int      // NVLinks between GPUs 2n and 2n+1
	nicMbps  int      // 0: no NICs
}

var intelCPU = []string{"arch", "x86_64", "vendor", "GenuineIntel", "familyid", "6", "modelid", "143"}

// hgxH100 is an HGX H100 with one 400 Gb/s NIC per GPU: 18 NVLinks per GPU to NVSwitch, PCI Gen5, Sapphire Rapids.
var hgxH100 = machine{
	cpus: 2, groups: 8, gpusPerGroup: 1, sm: 90, cpu: intelCPU, pci: "32.0 GT/s PCIe", nvSwitch: 18, nicMbps: 400000,
}

func (m machine) document() *topo.Document {
	root := topo.NewElement("system", "version", "1")
	bus := 0
	device := func(class string) *topo.Element {
		bus++
		return topo.NewElement("pci", "busid", busID(bus), "class", class, "link_speed", m.pci, "link_width", "16")
	}
	gpu := 0
	busOf := map[int]*topo.Element{}
	for c := range m.cpus {
		cpu := root.Add(topo.NewElement("cpu", append([]string{"numaid", strconv.Itoa(c), "affinity", "ff"},
			m.cpu...)...))
		for g := c * m.groups / m.cpus; g < (c+1)*m.groups/m.cpus; g++ {
			sw := cpu.Add(device("0x060400"))
			for range m.gpusPerGroup {
				pci := sw.Add(device("0x030200"))
				n := strconv.Itoa(gpu)
				e := pci.Add(topo.NewElement("gpu", "dev", n, "sm", strconv.Itoa(m.sm), "rank", n, "gdr", "1"))
				if m.nvSwitch > 0 {
					e.Add(topo.NewElement("nvlink", "target", "fffffff:ff:ff.0", "count", strconv.Itoa(m.nvSwitch),
						"tclass", "0x068000"))
				}
				busOf[gpu] = pci
				gpu++
			}
			if m.nicMbps > 0 {
				nic := sw.Add(device("0x020000")).Add(topo.NewElement("nic"))
				nic.Add(topo.NewElement("net", "name", fmt.Sprintf("mlx5_%d", g), "dev", strconv.Itoa(g), "speed",
					strconv.Itoa(m.nicMbps), "port", "1", "guid", fmt.Sprintf("0x%x", 0x1000+g), "maxconn", "131072",
					"gdr", "1"))
			}
		}
	}
	for g := range gpu {
		if peer := busOf[g^1]; m.bridges > 0 && peer != nil {
			id, _ := peer.Attr("busid")
			busOf[g].Child("gpu").Add(topo.NewElement("nvlink", "target", id, "count", strconv.Itoa(m.bridges),
				"tclass", "0x030200"))
		}
	}
	return &topo.Document{File: "machine", Root: root}
}

func busID(n int) string { return fmt.Sprintf("0000:%02x:00.0", n) }
