package topo

import (
	"fmt"
	"testing"
)

// NVSwitches join the GPUs of several hosts.
func TestMultimemBetweenHosts(t *testing.T) {
	host := func(hash, tclass string, rank int) *Element {
		cpu := NewElement("cpu", "numaid", "0", "host_hash", hash, "arch", "arm64")
		for i := range 2 {
			pci := cpu.Add(NewElement("pci", "busid", fmt.Sprintf("0000:0%d:00.0", i+1), "class", "0x030200",
				"link_width", "16", "link_speed", ""))
			gpu := pci.Add(NewElement("gpu", "dev", fmt.Sprint(i), "sm", "100", "rank", fmt.Sprint(rank+i), "gdr", "1"))
			if tclass != "" {
				gpu.Add(NewElement("nvlink", "target", "fffffff:ffff:ff", "count", "18", "tclass", tclass))
			}
		}
		return cpu
	}
	for _, tt := range []struct {
		tclass   string
		multimem bool
	}{
		{"0x068000", true},
		{"", false},
	} {
		root := NewElement("system", "version", "1")
		root.Add(host("0x1", tt.tclass, 0))
		root.Add(host("0x2", tt.tclass, 2))
		s, err := Build(&Document{File: "two hosts", Root: root}, Settings{})
		if err != nil {
			t.Fatal(err)
		}
		if s.CanMultimem() != tt.multimem {
			t.Errorf("tclass %q: multimem %t", tt.tclass, s.CanMultimem())
		}
		if s.Nodes[NodeGPU] = s.Nodes[NodeGPU][:1]; s.CanMultimem() {
			t.Errorf("tclass %q: multimem of one GPU", tt.tclass)
		}
	}
}
