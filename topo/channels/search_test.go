package channels

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

func tuneOne(t testing.TB, m machine, hosts int) *CommTuning {
	t.Helper()
	c, err := Tune(m.document(), TuneOptions{}, hosts)
	if err != nil {
		t.Fatal(err)
	}
	return c[0]
}

// summary leaves out the order of GPUs and NICs.
func summary(g Graph) Graph {
	g.Intra, g.Inter = nil, nil
	return g
}

// The graphs are those that NCCL 2.30.7 finds.
func TestSearchHGXH100(t *testing.T) {
	data, err := os.ReadFile("testdata/hgx-h100-graphs.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]Graphs
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	for name, hosts := range map[string]int{"single": 1, "multi": 2} {
		got := tuneOne(t, hgxH100, hosts).Graphs
		for _, g := range [][2]Graph{{got.Ring, want[name].Ring}, {got.Tree, want[name].Tree},
			{got.NVLS, want[name].NVLS}} {
			if !reflect.DeepEqual(summary(g[0]), g[1]) {
				t.Errorf("%s: found %+v, NCCL %+v", name, summary(g[0]), g[1])
			}
		}
	}
	// Rings over nodes enter and leave through neighbouring NICs, so that each NIC sends and receives once.
	ring := tuneOne(t, hgxH100, 2).Graphs.Ring
	if want := []topo.ID{0, 1}; !slices.Equal(ring.Inter[0], want) ||
		!slices.Equal(ring.Intra[0], []int{0, 7, 6, 5, 4, 3, 2, 1}) {
		t.Errorf("first ring %v over NICs %v", ring.Intra[0], ring.Inter[0])
	}
}

// As above: NCCL's answers for these machines.
func TestSearchSmallMachines(t *testing.T) {
	type graph struct {
		channels     int
		intra, inter float32
		kinds        [2]topo.PathType
		first        []int
	}
	pcie := machine{cpus: 1, groups: 2, gpusPerGroup: 2, sm: 80, cpu: intelCPU, pci: "16.0 GT/s PCIe", nicMbps: 100000}
	bridged := machine{cpus: 2, groups: 2, gpusPerGroup: 1, sm: 86, cpu: intelCPU, pci: "16.0 GT/s PCIe", bridges: 4}
	alone := machine{cpus: 1, groups: 1, gpusPerGroup: 1, sm: 80, cpu: intelCPU, pci: "16.0 GT/s PCIe", nicMbps: 200000}
	for _, c := range []struct {
		name       string
		m          machine
		hosts      int
		ring, tree graph
	}{
		{"four GPUs on two switches", pcie, 1,
			graph{1, 20, 20, [2]topo.PathType{topo.PathPHB, topo.PathPIX}, []int{0, 1, 2, 3}},
			graph{1, 20, 20, [2]topo.PathType{topo.PathPHB, topo.PathPIX}, []int{0, 1, 2, 3}}},
		{"four GPUs on two switches, two hosts", pcie, 2,
			graph{2, 10, 10, [2]topo.PathType{topo.PathPHB, topo.PathPHB}, []int{0, 1, 2, 3}},
			graph{2, 9, 9, [2]topo.PathType{topo.PathPHB, topo.PathPHB}, []int{0, 1, 2, 3}}},
		{"a pair with an NVLink bridge", bridged, 1,
			graph{2, 20, 20, [2]topo.PathType{topo.PathNVL, topo.PathPIX}, []int{0, 1}},
			graph{2, 40, 40, [2]topo.PathType{topo.PathNVL, topo.PathPIX}, []int{0, 1}}},
		{"one GPU per host", alone, 2,
			graph{1, 24, 24, [2]topo.PathType{topo.PathLOC, topo.PathPIX}, []int{0}},
			graph{1, 48, 24, [2]topo.PathType{topo.PathLOC, topo.PathPIX}, []int{0}}},
	} {
		got := tuneOne(t, c.m, c.hosts).Graphs
		for _, k := range []struct {
			name string
			got  Graph
			want graph
		}{{"ring", got.Ring, c.ring}, {"tree", got.Tree, c.tree}} {
			g := graph{k.got.NChannels, k.got.BWIntra, k.got.BWInter,
				[2]topo.PathType{k.got.TypeIntra, k.got.TypeInter}, k.got.Intra[0]}
			if !reflect.DeepEqual(g, k.want) {
				t.Errorf("%s: %s %+v, want %+v", c.name, k.name, g, k.want)
			}
		}
	}
}

func TestTuneRefuses(t *testing.T) {
	noNIC := hgxH100
	noNIC.nicMbps = 0
	noGPU := hgxH100
	noGPU.gpusPerGroup = 0
	for _, c := range []struct {
		m     machine
		hosts int
		want  string
	}{
		{noNIC, 2, "no path from GPU/"},
		{noGPU, 1, "no GPU with a rank"},
		{hgxH100, 0, "0 hosts"},
	} {
		if _, err := Tune(c.m.document(), TuneOptions{}, c.hosts); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one that says %q", err, c.want)
		}
	}
}

func TestTuneCollNet(t *testing.T) {
	c, err := Tune(hgxH100.document(), TuneOptions{CollNet: true}, 1, 4)
	if err != nil {
		t.Fatal(err)
	}
	one, four := c[0].Tuning, c[1].Tuning
	if one.CollNet {
		t.Error("CollNet on one node")
	}
	if !four.CollNet || four.CollNetHeads != 8 {
		t.Errorf("CollNet %v with %d heads over four nodes, want all 8 GPUs", four.CollNet, four.CollNetHeads)
	}
	if us := four.Table(nccl.CollAllReduce, 1<<20, 1)[nccl.AlgoNVLS][nccl.ProtoSimple]; us <= 0 {
		t.Errorf("NVLS over nodes with CollNet takes %v us", us)
	}
}

func BenchmarkTuneHGXH100(b *testing.B) {
	doc := hgxH100.document()
	for b.Loop() {
		if _, err := Tune(doc, TuneOptions{}, 1, 2); err != nil {
			b.Fatal(err)
		}
	}
}

// twoHosts are hosts that reach each other only over the network.
func twoHosts(machines ...machine) *topo.Document {
	doc := &topo.Document{File: "two hosts", Root: topo.NewElement("system", "version", "1")}
	ranks := 0
	for i, m := range machines {
		of := m.document()
		for e := range of.Root.All() {
			switch e.Name {
			case "cpu":
				e.Set("host_hash", strconv.Itoa(1+i))
			case "gpu":
				e.Set("rank", strconv.Itoa(ranks))
				ranks++
			case "net":
				e.Set("guid", fmt.Sprintf("%d%04d", 1+i, ranks))
			}
		}
		for _, cpu := range of.Root.Children {
			doc.Root.Add(cpu)
		}
	}
	return doc
}

// Ranks of unlike hosts agree on the worst of what each finds, whichever comes first.
func TestWorstHostCounts(t *testing.T) {
	slow := machine{cpus: 2, groups: 2, gpusPerGroup: 2, sm: 80, cpu: intelCPU, pci: "8.0 GT/s PCIe", nicMbps: 100000}
	for _, hosts := range [][2]machine{{hgxH100, slow}, {slow, hgxH100}} {
		all, err := Tune(twoHosts(hosts[:]...), TuneOptions{}, 1)
		if err != nil {
			t.Fatal(err)
		}
		c := all[0]
		// The HGX H100 has 8 channels that cross NICs and are not alike, the other one has one across the CPUs.
		for name, g := range map[string][2]Graph{
			"ring": {c.Graphs.Ring, {CrossNIC: 2, NChannels: 1, BWIntra: 12, BWInter: 12}},
			"tree": {c.Graphs.Tree, {CrossNIC: 0, NChannels: 1, BWIntra: 7, BWInter: 7}},
		} {
			got, want := g[0], g[1]
			if got.CrossNIC != want.CrossNIC || got.NChannels != want.NChannels || got.BWIntra != want.BWIntra ||
				got.BWInter != want.BWInter || got.TypeIntra != topo.PathSYS || got.TypeInter != topo.PathSYS ||
				got.SameChannels != 0 {
				t.Errorf("%s: %+v, want %+v", name, summary(got), want)
			}
		}
		f := c.facts
		got := [...]any{f.Nodes, f.MinLocalRanks, f.MaxLocalRanks, f.MinCompCap, f.MaxCompCap, f.MinNetBW, f.NVLS}
		if want := [...]any{2, 4, 8, 80, 90, float32(12), false}; got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
}
