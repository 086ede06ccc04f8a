package channels

import (
	"strconv"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// Rings over several hosts come in through one NIC and go out through another. Which, depends on what the net plugin
// says about the networks that the NICs are on.
func TestRingsKeepToPlanesAndRails(t *testing.T) {
	ring := func(attr string, number func(nic int) int) Graph {
		doc := hgxH100.document()
		nic := 0
		for e := range doc.Root.All() {
			if e.Name == "net" {
				if attr != "" {
					e.Set(attr, strconv.Itoa(number(nic)))
				}
				nic++
			}
		}
		c, err := Tune(doc, TuneOptions{}, 2)
		if err != nil {
			t.Fatal(err)
		}
		return c[0].Graphs.Ring
	}
	changes := func(g Graph) (n int) {
		for _, ends := range g.Inter {
			if ends[0] != ends[1] {
				n++
			}
		}
		return n
	}
	own := func(nic int) int { return nic }
	none := func(int) int { return -1 }
	half := func(nic int) int { return nic / 4 }
	one := func(int) int { return 0 }

	if g := ring("", nil); changes(g) != g.NChannels || g.CrossNIC != 2 {
		t.Errorf("nothing known: %d of %d rings change NICs, cross NIC %d; want all, 2", changes(g),
			g.NChannels, g.CrossNIC)
	}
	if g := ring("plane", none); changes(g) != g.NChannels {
		t.Errorf("plane -1 is not a plane, but only %d of %d rings change NICs", changes(g), g.NChannels)
	}
	if g := ring("plane", own); changes(g) != 0 {
		t.Errorf("each NIC on a plane of its own: %d rings change planes", changes(g))
	}
	planeOf := func(id topo.ID) int { return half(int(id.Local())) }
	for _, ends := range ring("plane", half).Inter {
		if planeOf(ends[0]) != planeOf(ends[1]) {
			t.Errorf("two planes: a ring comes in on NIC %d and goes out on %d", ends[0], ends[1])
		}
	}
	// One rail for all: NICs may differ without crossing rails.
	if g := ring("rail", one); changes(g) != g.NChannels || g.CrossNIC != 0 {
		t.Errorf("one rail: %d of %d rings change NICs, cross NIC %d; want all, 0", changes(g), g.NChannels, g.CrossNIC)
	}
	// A known rail counts instead of adapter and port.
	if g := ring("rail", own); changes(g) != g.NChannels || g.CrossNIC != 2 {
		t.Errorf("a rail each: %d of %d rings change NICs, cross NIC %d; want all, 2", changes(g),
			g.NChannels, g.CrossNIC)
	}
}
