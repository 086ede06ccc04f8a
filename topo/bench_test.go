package topo

import (
	"fmt"
	"testing"
)

// nvl72 is an NVLink domain of 18 hosts, each with two Arm CPUs, four GPUs on C2C and four NICs.
func nvl72() *Document {
	root := NewElement("system", "version", "1")
	rank := 0
	for host := range 18 {
		for numa := range 2 {
			cpu := root.Add(NewElement("cpu", "host_hash", fmt.Sprintf("%#x", host+1), "numaid", fmt.Sprint(numa),
				"arch", "arm64"))
			for i := range 2 {
				dev := fmt.Sprint(2*numa + i)
				device := func(kind int, class string) *Element {
					busID := fmt.Sprintf("%04x:%02x:00.0", 8*numa, 2*kind+i+1)
					return cpu.Add(NewElement("pci", "busid", busID, "class", class,
						"link_speed", "32.0 GT/s PCIe", "link_width", "16"))
				}
				gpu := device(0, "0x030200").Add(NewElement("gpu", "dev", dev, "sm", "100", "rank", fmt.Sprint(rank),
					"gdr", "1"))
				gpu.Add(NewElement("nvlink", "target", "fffffff:ffff:ff", "count", "18", "tclass", "0x068000"))
				gpu.Add(NewElement("c2c", "bw", "44712", "count", "5"))
				nic := device(1, "0x020000").Add(NewElement("nic"))
				nic.Add(NewElement("net", "name", "mlx5_"+dev, "dev", dev, "speed", "400000", "gdr", "1"))
				rank++
			}
		}
	}
	return &Document{File: "nvl72", Root: root}
}

// BenchmarkNVL72 takes a 72-GPU NVLink domain from its XML tree to paths, and through communicator init.
func BenchmarkNVL72(b *testing.B) {
	doc := nvl72()
	run := func(name string, compute func(*System) error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := compute(build(b, doc)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("build", func(*System) error { return nil })
	run("raw", func(s *System) error { return s.SetPaths() })
	run("single", func(s *System) error { return s.Init(s.Whole()) })
}
