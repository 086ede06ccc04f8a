package topo

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/nccltest"
)

func summarize(t testing.TB, doc *Document) Summary {
	t.Helper()
	s, err := Build(doc, Settings{})
	if err != nil {
		t.Fatal(err)
	}
	sum, err := s.Summarize()
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// What was detected goes all the way to the numbers that rules see.
func TestSummaryOfADetectedMachine(t *testing.T) {
	doc := fixture(t, "../detect/testdata/two_sockets.xml")
	want := Summary{
		GPUs: 4, Hosts: 1, CPUs: 2, SM: 80, Arch: "x86_64",
		// The pairs on a socket have twelve NVLinks of 20 GB/s each. Between sockets NCCL prefers the NICs (24 GB/s) to
		// the CPUs (10 GB/s).
		IntraBW: 24, MinPairBW: 24, Intra: "NET", NVLinkBW: 240,
		// Two ports of 200 Gbit/s share one PCIe 4.0 x16 slot, and the one of 400 Gbit/s has one for itself.
		NICs: 3, NICBW: 25, NetBW: 24 + 24, GPUNIC: "PIX", GPUNICBW: 24, GDR: true,
	}
	got := summarize(t, doc)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%#v\nwant\n%#v", got, want)
	}
	const line = "4 GPUs sm_80, NET at 24 GB/s, 3 network ports with 48 GB/s, GPU to port PIX with GPUDirect RDMA"
	if got.String() != line {
		t.Errorf("got %q, want %q", got, line)
	}
}

func TestSummaryWithoutNICs(t *testing.T) {
	doc := fixture(t, "../detect/testdata/two_sockets.xml")
	for e := range doc.Root.All() {
		e.Children = slicesWithout(e.Children, "nic")
	}
	got := summarize(t, doc)
	if got.NICs != 0 || got.NetBW != 0 || got.GPUNIC != "DIS" || got.GDR {
		t.Errorf("%#v", got)
	}
	if !strings.HasSuffix(got.String(), ", no network port") {
		t.Errorf("%q", got)
	}
}

func slicesWithout(elements []*Element, name string) (rest []*Element) {
	for _, e := range elements {
		if e.Name != name {
			rest = append(rest, e)
		}
	}
	return rest
}

func TestSummaryOfKnownSystems(t *testing.T) {
	known := map[string]Summary{
		"hw-dgx-h100": {GPUs: 8, Hosts: 1, CPUs: 2, SM: 90, Arch: "x86_64", NVSwitch: true, Multimem: true,
			IntraBW: 370.8, MinPairBW: 370.8,
			Intra: "NVL", NVLinkBW: 370.8, NICs: 8, NICBW: 50, NetBW: 384, GPUNIC: "PIX", GPUNICBW: 48, GDR: true},
		// NVLink does not join every pair of a DGX-1, but there is a ring of double links.
		"hw-dgx1v": {GPUs: 8, Hosts: 1, CPUs: 2, SM: 70, Arch: "x86_64", IntraBW: 40, MinPairBW: 20,
			Intra: "NVB", NVLinkBW: 120, NICs: 4, NICBW: 12.5, NetBW: 48, GPUNIC: "PIX", GPUNICBW: 12, GDR: true},
		"hw-gh200": {GPUs: 1, Hosts: 1, CPUs: 1, SM: 90, Arch: "arm64", C2C: true, Intra: "LOC", NICs: 1,
			NICBW: 50, NetBW: 48,
			GPUNIC: "P2C", GPUNICBW: 48, GDR: true},
		"hw-gb200-nvl72": {GPUs: 72, Hosts: 18, CPUs: 36, SM: 100, Arch: "arm64", NVSwitch: true, C2C: true,
			Multimem: true,
			IntraBW:  721.8, MinPairBW: 721.8, Intra: "NVL", NVLinkBW: 721.8, NICs: 72, NICBW: 50, NetBW: 3456,
			GPUNIC:   "P2C",
			GPUNICBW: 48, GDR: true},
		// One of the eight ports has a PCIe 3.0 slot, and every GPU has a wider one as near.
		"issue-nccl1519-h100vm": {GPUs: 8, Hosts: 1, CPUs: 2, SM: 90, Arch: "x86_64", NVSwitch: true, Multimem: true,
			IntraBW:   370.8,
			MinPairBW: 370.8, Intra: "NVL", NVLinkBW: 370.8, NICs: 7, NICBW: 25, NetBW: 168, GPUNIC: "PHB",
			GPUNICBW: 24},
	}
	for _, file := range nccltest.Files(t, "system.xml") {
		dir := nccltest.System(file)
		want, ok := known[dir]
		if !ok {
			continue
		}
		t.Run(dir, func(t *testing.T) {
			if got := summarize(t, readGolden(t, file)); !closeTo(got, want) {
				t.Errorf("got\n%#v\nwant\n%#v", got, want)
			}
		})
	}
}

// closeTo compares numbers to four digits, since NCCL's are float32.
func closeTo(a, b Summary) bool {
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range va.NumField() {
		x, isFloat := va.Field(i).Interface().(float64)
		if isFloat && math.Abs(x-vb.Field(i).Float()) <= 1e-4*math.Abs(x) {
			continue
		}
		if !reflect.DeepEqual(va.Field(i).Interface(), vb.Field(i).Interface()) {
			return false
		}
	}
	return true
}

func TestSummaryOfEverySystemIsPlausible(t *testing.T) {
	for _, file := range nccltest.Files(t, "system.xml") {
		dir := nccltest.System(file)
		s, err := Build(readGolden(t, file), Settings{})
		if err != nil {
			t.Fatal(err)
		}
		sum, err := s.Summarize()
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		fail := func(format string, args ...any) {
			t.Errorf("%s: %s\n%#v", dir, fmt.Sprintf(format, args...), sum)
		}
		if sum.GPUs > 1 && (sum.IntraBW < sum.MinPairBW || sum.MinPairBW <= 0) {
			fail("the widest ring is narrower than the narrowest pair")
		}
		if sum.Multimem && (!sum.NVSwitch || sum.SM < 90) {
			fail("multicast without NVSwitch")
		}
		if sum.NICs > len(s.Nodes[NodeNET]) ||
			sum.NICs > 0 && (sum.NetBW <= 0 || sum.GPUNICBW > sum.NICBW && sum.GPUNICBW > sum.NetBW) {
			fail("network")
		}
	}
}

// GPUs that communicate over the network do so at the rate of the slower port.
func TestPairOverTheNetwork(t *testing.T) {
	s := build(t, fixture(t, "two_hosts.xml"))
	a, b := s.Nodes[NodeGPU][0], s.Nodes[NodeGPU][1]
	for _, at := range []*Node{a, b} {
		at.paths[NodeNET] = []Path{{Type: PathPIX, BW: 12}}
		at.paths[NodeGPU] = []Path{{Type: PathNET}, {Type: PathNET}}
	}
	b.paths[NodeNET][0].BW = 24
	if ab, ba := s.pairBW(a, b), s.pairBW(b, a); ab != 12 || ba != 12 {
		t.Errorf("%v and %v GB/s, want 12", ab, ba)
	}
}
