package topo

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite golden files and configs/tuning")

// hgxH100Graphs are the channels that NCCL 2.30.7 finds on an HGX H100 with one 400 Gb/s NIC per GPU.
func hgxH100Graphs(t testing.TB) (single, multi ChannelGraphs) {
	t.Helper()
	data, err := os.ReadFile("testdata/hgx-h100-graphs.json")
	if err != nil {
		t.Fatal(err)
	}
	var f struct{ Single, Multi ChannelGraphs }
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	return f.Single, f.Multi
}

func hgxH100Tuning(t testing.TB, nNodes int) *Tuning {
	single, multi := hgxH100Graphs(t)
	graphs := multi
	if nNodes == 1 {
		graphs = single
	}
	return DeriveTuning(graphs, CommFacts{
		NNodes: nNodes, NRanks: 8 * nNodes, MinLocalRanks: 8, MaxLocalRanks: 8, MinCompCap: 90, MaxCompCap: 90,
		CPUArch: ArchX86, CPUVendor: VendorIntel, MinNetBW: 48, NVSwitches: 1, NVLS: true,
		MaxTreePattern: graphs.Tree.Pattern,
	})
}

const hgxH100File = "../configs/tuning/hgx-h100.json"

func TestReferenceTuningIsUpToDate(t *testing.T) {
	set := &TuningSet{
		System: "HGX H100: 8 GPUs on NVSwitch, Intel CPUs, 8 NICs of 400 Gb/s, one per GPU",
		Source: "NCCL 2.30.7's cost model (graph/tuning.cc), computed by package topo from the channels that NCCL's " +
			"search finds on this system: 12 x 30 GB/s on one node, 8 x 48 GB/s over nodes, NVLS with 8 heads",
		NCCL: "2.30.7",
	}
	comms, err := Tune(hgxH100.document(), TuneOptions{}, 1, 2, 4, 8, 16, 32, 64)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range comms {
		set.Tunings = append(set.Tunings, c.Tuning)
	}
	var text bytes.Buffer
	if err := WriteTuning(&text, set); err != nil {
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
		t.Errorf("%s is not what the cost model gives; run go test ./topo -run Reference -update", hgxH100File)
	}
	read, err := ReadTuning(bytes.NewReader(have), hgxH100File)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range set.Tunings {
		got := read.For(want.NNodes, want.NRanks)
		for coll := range CollNames {
			for bytes := int64(8); bytes <= 1<<34; bytes *= 2 {
				if got.Table(coll, bytes, 1) != want.Table(coll, bytes, 1) {
					t.Fatalf("%d nodes, %s, %d B: table changes by writing and reading", want.NNodes, CollNames[coll], bytes)
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
		tuning    *Tuning
		coll      int
		algo      int
		proto     int
		lat, bw   float32
		available bool
	}{
		{"1 node", one, CollBroadcast, AlgoRing, ProtoLL, 7.2, 141, true},
		{"1 node", one, CollBroadcast, AlgoRing, ProtoLL128, 15.9, 331.2, true},
		{"1 node", one, CollBroadcast, AlgoRing, ProtoSimple, 11.799999, 360, true},
		{"1 node", one, CollBroadcast, AlgoTree, ProtoSimple, 0, 0, false},
		{"1 node", one, CollAllReduce, AlgoNVLSTree, ProtoSimple, 25, 0, false},
		{"2 nodes", two, CollAllReduce, AlgoNVLS, ProtoSimple, 43, 0, false},
	} {
		at := fmt.Sprintf("%s %s %s/%s", c.where, CollNames[c.coll], AlgoNames[c.algo], ProtoNames[c.proto])
		if got := c.tuning.Latencies[c.coll][c.algo][c.proto]; got != c.lat {
			t.Errorf("%s: latency %v us, want %v", at, got, c.lat)
		}
		if got := c.tuning.Bandwidths[c.coll][c.algo][c.proto]; got != c.bw {
			t.Errorf("%s: bandwidth %v GB/s, want %v", at, got, c.bw)
		}
		if us := c.tuning.Table(c.coll, 1<<20, 1)[c.algo][c.proto]; (us != Unavailable) != c.available {
			t.Errorf("%s: %v us", at, us)
		}
	}
}

func TestChooseHGXH100(t *testing.T) {
	one := hgxH100Tuning(t, 1)
	for _, c := range []struct {
		coll, pipeOps   int
		bytes           int64
		algo, proto     int
		channels, warps int
	}{
		{CollAllReduce, 1, 8, AlgoRing, ProtoLL, 1, 3},
		{CollAllReduce, 4, 8, AlgoTree, ProtoLL, 1, 20},
		{CollAllGather, 4, 8, AlgoNVLS, ProtoSimple, 16, 20},
		{CollAllReduce, 1, 1 << 30, AlgoNVLS, ProtoSimple, 16, 20},
	} {
		got := one.Choose(c.coll, c.bytes, c.pipeOps)
		want := Choice{c.algo, c.proto, one.Table(c.coll, c.bytes, c.pipeOps)[c.algo][c.proto], c.channels, c.warps}
		if got != want {
			t.Errorf("%s of %d B: %+v, want %+v", CollNames[c.coll], c.bytes, got, want)
		}
	}
}

func TestChooseFromEdges(t *testing.T) {
	one := hgxH100Tuning(t, 1)
	var none CostTable
	for a := range none {
		for p := range none[a] {
			none[a][p] = Unavailable
		}
	}
	if got := one.ChooseFrom(none, 1024); got.Algo != -1 || got.Proto != -1 {
		t.Errorf("nothing available, chosen %+v", got)
	}
	tie := none
	tie[AlgoRing][ProtoSimple], tie[AlgoNVLS][ProtoSimple], tie[AlgoRing][ProtoLL] = 5, 5, -1024
	if got := one.ChooseFrom(tie, 1024); got.Algo != AlgoRing || got.Proto != ProtoSimple {
		t.Errorf("a tie goes to the first cell, chosen %+v", got)
	}
	alone := &Tuning{NNodes: 1, NRanks: 1, NChannels: 1}
	if got := alone.Table(CollAllReduce, 1024, 1)[AlgoRing][ProtoSimple]; got != 0 {
		t.Errorf("a single rank takes %v us, want 0", got)
	}
}

func TestDeriveTuningTreePattern(t *testing.T) {
	_, multi := hgxH100Graphs(t)
	facts := CommFacts{NNodes: 4, NRanks: 32, MinCompCap: 90, MaxCompCap: 90, CPUArch: ArchX86, CPUVendor: VendorIntel}
	without := DeriveTuning(multi, facts).Bandwidths[CollAllReduce][AlgoTree][ProtoSimple]
	facts.MaxTreePattern = PatternTree
	with := DeriveTuning(multi, facts).Bandwidths[CollAllReduce][AlgoTree][ProtoSimple]
	if without != 144 || with != 122.4 {
		t.Errorf("tree bandwidth %v and %v GB/s with all traffic on one GPU; want 144 and 122.4", without, with)
	}
}

func TestReadTuningErrors(t *testing.T) {
	good := `{"format":"nccl-tuner-go/tuning","version":1,"nccl":"2.30.7","tunings":[{"nodes":1,"ranks":8,"channels":24,` +
		`"min_comp_cap":90,"cpu_arch":1,"max_threads":{"ring":[512,640,512]},"thread_thresholds":{"ring":[64,8,64]},` +
		`"latency_us":{"allreduce":{"ring":[15,1,2]}},"bandwidth_gbps":{"allreduce":{"ring":[80,1,2]}}}]}`
	if _, err := ReadTuning(strings.NewReader(good), "good.json"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, want string }{
		{`"version":1`, `"version":2`, "version 2"},
		{`"format":"nccl-tuner-go/tuning"`, `"format":"x"`, `neither "format"`},
		{`"ring":[15`, `"rign":[15`, `unknown algorithm "rign"`},
		{`"allreduce":{"ring":[80`, `"allred":{"ring":[80`, `unknown collective "allred"`},
		{`"ranks":8`, `"ranks":0`, "0 ranks on 1 nodes"},
		{`"channels":24`, `"channels":0`, "0 channels"},
		{`[80,`, `[-80,`, "bandwidth -80"},
		{`[80,`, `["x",`, "bad.json:1:"},
		{`"min_comp_cap"`, `"min_compcap"`, "min_compcap"},
		{`[512,640,512]`, `[512,9999,512]`, "9999 threads"},
		{`}]}`, `}]`, "bad.json:1:"},
	} {
		text := strings.Replace(good, c.from, c.to, 1)
		_, err := ReadTuning(strings.NewReader(text), "bad.json")
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "bad.json:") {
			t.Errorf("%s: error %v, want one that says %q", c.to, err, c.want)
		}
	}
}

func FuzzReadTuning(f *testing.F) {
	if data, err := os.ReadFile(hgxH100File); err == nil {
		f.Add(data)
	}
	f.Add([]byte(`{"nodes":{"1":{"nNodes":1,"nRanks":8,"nChannels":2}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		set, err := ReadTuning(bytes.NewReader(data), "fuzz.json")
		if err != nil {
			return
		}
		for _, tuning := range set.Tunings {
			for coll := range CollNames {
				tuning.Choose(coll, 1<<20, 1)
			}
		}
	})
}

func BenchmarkTable(b *testing.B) {
	tuning := hgxH100Tuning(b, 2)
	for b.Loop() {
		tuning.Table(CollAllReduce, 1<<20, 1)
	}
}

func ExampleTuning_Choose() {
	f, err := os.Open(hgxH100File)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	set, err := ReadTuning(f, hgxH100File)
	if err != nil {
		fmt.Println(err)
		return
	}
	t := set.For(4, 32)
	for _, bytes := range []int64{1 << 10, 1 << 20, 1 << 30} {
		c := t.Choose(CollAllReduce, bytes, 1)
		fmt.Printf("%d B: %s/%s %.0f us, %d channels\n", bytes, AlgoNames[c.Algo], ProtoNames[c.Proto], c.Micros, c.Channels)
	}
	// Output:
	// 1024 B: tree/ll 35 us, 1 channels
	// 1048576 B: tree/ll128 83 us, 16 channels
	// 1073741824 B: ring/simple 5814 us, 16 channels
}
