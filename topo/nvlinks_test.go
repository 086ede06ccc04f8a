package topo

import (
	"slices"
	"strings"
	"testing"
)

// lose takes NVLinks from GPUs of a machine.
func lose(doc *Document, left string, devs ...string) *Document {
	for e := range doc.Root.All() {
		if dev, _ := e.Attr("dev"); e.Name != "gpu" || !slices.Contains(devs, dev) {
			continue
		}
		for _, l := range e.Children {
			if l.Name == "nvlink" {
				l.Set("count", left)
			}
		}
		if left == "0" {
			e.Children = slicesWithout(e.Children, "nvlink")
		}
	}
	return doc
}

// A GPU with fewer links than its like is named. Machines whose GPUs differ by design are not.
func TestFewerNVLinks(t *testing.T) {
	h100 := func() *Document { return fixture(t, "../../configs/topo/dgx-h100.xml") }
	for _, c := range []struct {
		name string
		doc  *Document
		want string
	}{
		{"all there", h100(), ""},
		{"none on one", lose(h100(), "0", "3"), "GPU 3 (0000:61:00.0) has 0 NVLinks, and others like it have 18"},
		{"fewer on two", lose(h100(), "12", "0", "7"), "GPU 0 (0000:1b:00.0) has 12 NVLinks, and others like it have 18\n" +
			"GPU 7 (0000:df:00.0) has 12 NVLinks, and others like it have 18"},
		{"without switches", fixture(t, "../../configs/topo/pcie-4gpu.xml"), ""},
		{"bridges", fixture(t, "../detect/testdata/two_sockets.xml"), ""},
		{"a bridge between two of four", lose(fixture(t, "../detect/testdata/two_sockets.xml"), "0", "2", "3"), ""},
		{"a chain", fixture(t, "chain3.xml"), ""},
	} {
		if got := strings.Join(c.doc.FewerNVLinks(), "\n"); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// No bandwidth between two GPUs is the least there is.
func TestPairWithoutAPath(t *testing.T) {
	doc := lose(fixture(t, "../../configs/topo/dgx-h100.xml"), "0", "0")
	for e := range doc.Root.All() {
		e.Children = slicesWithout(e.Children, "nic")
	}
	s, err := Build(doc, Settings{SHMDisable: true})
	if err != nil {
		t.Fatal(err)
	}
	sum, err := s.Summarize()
	if err != nil || sum.MinPairBW != 0 || sum.IntraBW != 0 {
		t.Errorf("%v: narrowest pair %v, ring %v", err, sum.MinPairBW, sum.IntraBW)
	}
}
