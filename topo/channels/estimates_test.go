package channels

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

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

// hopper is a communicator of H100 GPUs on Intel CPUs.
func hopper(nodes, ranks int) facts {
	return facts{
		Facts:      tuning.Facts{Comm: nccl.Comm{Nodes: nodes, Ranks: ranks}, MinCompCap: 90, CPUArch: nccl.ArchX86},
		MaxCompCap: 90, CPUVendor: topo.VendorIntel,
	}
}

func hgxH100Tuning(t testing.TB, nNodes int) *tuning.Tuning {
	single, multi := hgxH100Graphs(t)
	graphs := multi
	if nNodes == 1 {
		graphs = single
	}
	f := hopper(nNodes, 8*nNodes)
	f.MinLocalRanks, f.MaxLocalRanks, f.MinNetBW, f.NVLS = 8, 8, 48, true
	f.NVSwitches, f.MaxTreePattern = 1, graphs.Tree.Pattern
	return deriveTuning(graphs, f)
}

// The numbers are those NCCL 2.30.7 prints for this system.
func TestDeriveTuningHGXH100(t *testing.T) {
	one, two := hgxH100Tuning(t, 1), hgxH100Tuning(t, 2)
	if one.NChannels != 24 || one.NVLSChannels != 16 || two.NChannels != 16 {
		t.Errorf("channels %d, NVLS %d, over two nodes %d; want 24, 16, 16", one.NChannels, one.NVLSChannels,
			two.NChannels)
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
	facts := hopper(4, 32)
	without := deriveTuning(multi, facts).Bandwidths[nccl.CollAllReduce][nccl.AlgoTree][nccl.ProtoSimple]
	facts.MaxTreePattern = PatternTree
	with := deriveTuning(multi, facts).Bandwidths[nccl.CollAllReduce][nccl.AlgoTree][nccl.ProtoSimple]
	if without != 144 || with != 122.4 {
		t.Errorf("tree bandwidth %v and %v GB/s with all traffic on one GPU; want 144 and 122.4", without, with)
	}
}

// PAT is for one rank a node unless NCCL_PAT_ENABLE asks for it, or for none.
func TestPAT(t *testing.T) {
	_, graphs := hgxH100Graphs(t)
	for _, c := range []struct {
		ranks   int // on 4 nodes
		setting string
		want    bool
	}{{4, "", true}, {4, "1", true}, {4, "0", false}, {4, "2", true}, {32, "", false}, {32, "1", true},
		{32, "0", false}} {
		v, err := VariablesFromEnv(environ("NCCL_PAT_ENABLE="+c.setting), nccl.Reference)
		if err != nil {
			t.Fatal(err)
		}
		facts := hopper(4, c.ranks)
		facts.Variables = v
		if bw := deriveTuning(graphs, facts).Bandwidths[nccl.CollAllGather][nccl.AlgoPAT][nccl.ProtoSimple]; bw > 0 !=
			c.want {
			t.Errorf("%d ranks, NCCL_PAT_ENABLE=%q: %v GB/s", c.ranks, c.setting, bw)
		}
	}
}

// Since NCCL 2.31 nodes of several GPUs have PAT, too, if all have as many, and NVLS on as many channels.
func TestPATOfSeveralGPUs(t *testing.T) {
	for _, c := range []struct {
		nodes, fewest int // GPUs of a node; others have 8
		nvls          bool
		channels      int // of NVLS
		want          bool
	}{
		{2, 8, true, 8, true},
		{2, 8, false, 8, false},
		{2, 8, true, 4, false},
		{2, 7, true, 8, false},
		{1, 8, true, 8, false},
	} {
		f := hopper(c.nodes, 8*c.nodes-8+c.fewest)
		f.MinLocalRanks, f.MaxLocalRanks, f.NVLS = c.fewest, 8, c.nvls
		for version, want := range map[nccl.Change]bool{nccl.Models: c.want, nccl.Models - 1: false} {
			f.NCCL = nccl.Version(version)
			if got := newEstimates(Graphs{NVLS: Graph{NChannels: c.channels}}, f).patEnabled(); got != want {
				t.Errorf("%+v, NCCL %s: %v", c, f.NCCL, got)
			}
		}
	}
}
