package channels

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

var update = flag.Bool("update", false, "rewrite golden files and configs/tuning")

// hgxH100Graphs are the channels that NCCL 2.30.7 finds on an HGX H100 with one 400 Gb/s NIC per GPU.
func hgxH100Graphs(t testing.TB) (single, multi Graphs) {
	t.Helper()
	data, err := os.ReadFile("testdata/hgx-h100-graphs.json")
	if err != nil {
		t.Fatal(err)
	}
	var f struct{ Single, Multi Graphs }
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	return f.Single, f.Multi
}

func hgxH100Tuning(t testing.TB, nNodes int) *tuning.Tuning {
	single, multi := hgxH100Graphs(t)
	graphs := multi
	if nNodes == 1 {
		graphs = single
	}
	return DeriveTuning(graphs, CommFacts{
		NNodes: nNodes, NRanks: 8 * nNodes, MinLocalRanks: 8, MaxLocalRanks: 8, MinCompCap: 90, MaxCompCap: 90,
		CPUArch: topo.ArchX86, CPUVendor: topo.VendorIntel, MinNetBW: 48, NVSwitches: 1, NVLS: true,
		MaxTreePattern: graphs.Tree.Pattern,
	})
}

const hgxH100File = "../../configs/tuning/hgx-h100.json"

func TestReferenceTuningIsUpToDate(t *testing.T) {
	set := &tuning.Set{
		System: "HGX H100: 8 GPUs on NVSwitch, Intel CPUs, 8 NICs of 400 Gb/s, one per GPU",
		Source: "NCCL 2.30.7's cost model (graph/tuning.cc), computed by package channels from the channels that NCCL's " +
			"search finds on this system: 12 x 30 GB/s on one node, 8 x 48 GB/s over nodes, NVLS with 8 heads",
		NCCL: nccl.Reference,
	}
	comms, err := Tune(hgxH100.document(), TuneOptions{}, 1, 2, 4, 8, 16, 32, 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range comms {
		set.Tunings = append(set.Tunings, c.Tuning)
	}
	var text bytes.Buffer
	if err := tuning.Write(&text, set); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(hgxH100File, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(hgxH100File)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, text.Bytes()) {
		t.Errorf("%s is not what the cost model gives; run go test ./topo/channels -run Reference -update", hgxH100File)
	}
	read, err := tuning.Read(bytes.NewReader(have), hgxH100File)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range set.Tunings {
		got := read.For(want.NNodes, want.NRanks)
		for coll := range nccl.Coll(nccl.NumColls) {
			for bytes := int64(8); bytes <= 1<<34; bytes *= 2 {
				if got.Table(coll, bytes, 1) != want.Table(coll, bytes, 1) {
					t.Fatalf("%d nodes, %s, %d B: table changes by writing and reading", want.NNodes, coll, bytes)
				}
			}
		}
	}
}

// The numbers are those NCCL 2.30.7 prints for this system.
func TestDeriveTuningHGXH100(t *testing.T) {
	one, two := hgxH100Tuning(t, 1), hgxH100Tuning(t, 2)
	if one.NChannels != 24 || one.NVLSChannels != 16 || two.NChannels != 16 {
		t.Errorf("channels %d, NVLS %d, over two nodes %d; want 24, 16, 16", one.NChannels, one.NVLSChannels, two.NChannels)
	}
	for _, c := range []struct {
		where     string
		tuning    *tuning.Tuning
		coll      nccl.Coll
		algo      nccl.Algo
		proto     nccl.Proto
		lat, bw   float32
		available bool
	}{
		{"1 node", one, nccl.CollBroadcast, nccl.AlgoRing, nccl.ProtoLL, 7.2, 141, true},
		{"1 node", one, nccl.CollBroadcast, nccl.AlgoRing, nccl.ProtoLL128, 15.9, 331.2, true},
		{"1 node", one, nccl.CollBroadcast, nccl.AlgoRing, nccl.ProtoSimple, 11.799999, 360, true},
		{"1 node", one, nccl.CollBroadcast, nccl.AlgoTree, nccl.ProtoSimple, 0, 0, false},
		{"1 node", one, nccl.CollAllReduce, nccl.AlgoNVLSTree, nccl.ProtoSimple, 25, 0, false},
		{"2 nodes", two, nccl.CollAllReduce, nccl.AlgoNVLS, nccl.ProtoSimple, 43, 0, false},
	} {
		at := fmt.Sprintf("%s %s %s/%s", c.where, c.coll, c.algo, c.proto)
		if got := c.tuning.Latencies[c.coll][c.algo][c.proto]; got != c.lat {
			t.Errorf("%s: latency %v us, want %v", at, got, c.lat)
		}
		if got := c.tuning.Bandwidths[c.coll][c.algo][c.proto]; got != c.bw {
			t.Errorf("%s: bandwidth %v GB/s, want %v", at, got, c.bw)
		}
		if us := c.tuning.Table(c.coll, 1<<20, 1)[c.algo][c.proto]; (us != nccl.Unavailable) != c.available {
			t.Errorf("%s: %v us", at, us)
		}
	}
}

func TestDeriveTuningTreePattern(t *testing.T) {
	_, multi := hgxH100Graphs(t)
	facts := CommFacts{NNodes: 4, NRanks: 32, MinCompCap: 90, MaxCompCap: 90, CPUArch: topo.ArchX86, CPUVendor: topo.VendorIntel}
	without := DeriveTuning(multi, facts).Bandwidths[nccl.CollAllReduce][nccl.AlgoTree][nccl.ProtoSimple]
	facts.MaxTreePattern = PatternTree
	with := DeriveTuning(multi, facts).Bandwidths[nccl.CollAllReduce][nccl.AlgoTree][nccl.ProtoSimple]
	if without != 144 || with != 122.4 {
		t.Errorf("tree bandwidth %v and %v GB/s with all traffic on one GPU; want 144 and 122.4", without, with)
	}
}
