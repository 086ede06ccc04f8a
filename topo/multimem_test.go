package topo

import (
	"fmt"
	"reflect"
	"testing"
)

// NVLink joins the GPUs of several hosts; hosts without it are on their own.
func TestLoadStoreBetweenHosts(t *testing.T) {
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
		want     [][]int
		multimem bool
	}{
		{"0x068000", [][]int{{0, 1, 2, 3}}, true},
		{"", [][]int{{0, 1}, {2, 3}}, false},
	} {
		root := NewElement("system", "version", "1")
		root.Add(host("0x1", tt.tclass, 0))
		root.Add(host("0x2", tt.tclass, 2))
		s, err := Build(&Document{File: "two hosts", Root: root}, Settings{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.ComputePaths(); err != nil {
			t.Fatal(err)
		}
		if got := s.LoadStoreSets(); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("tclass %q: %v, want %v", tt.tclass, got, tt.want)
		}
		if s.CanMultimem() != tt.multimem {
			t.Errorf("tclass %q: multimem %t", tt.tclass, s.CanMultimem())
		}
	}
}
