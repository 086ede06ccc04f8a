package tuning

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

const hgxH100File = "../../configs/tuning/hgx-h100.json"

func hgxH100(t testing.TB, nodes int) *Tuning {
	t.Helper()
	f, err := os.Open(hgxH100File)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	set, err := Read(f, hgxH100File)
	if err != nil {
		t.Fatal(err)
	}
	return set.For(nodes, 0)
}

func TestChooseHGXH100(t *testing.T) {
	one := hgxH100(t, 1)
	for _, c := range []struct {
		coll            nccl.Coll
		pipeOps         int
		bytes           int64
		algo            nccl.Algo
		proto           nccl.Proto
		channels, warps int
	}{
		{nccl.CollAllReduce, 1, 8, nccl.AlgoRing, nccl.ProtoLL, 1, 3},
		{nccl.CollAllReduce, 4, 8, nccl.AlgoTree, nccl.ProtoLL, 1, 20},
		{nccl.CollAllGather, 4, 8, nccl.AlgoNVLS, nccl.ProtoSimple, 16, 20},
		{nccl.CollAllReduce, 1, 1 << 30, nccl.AlgoNVLS, nccl.ProtoSimple, 16, 20},
	} {
		got := one.Choose(c.coll, c.bytes, c.pipeOps)
		want := Choice{c.algo, c.proto, one.Table(c.coll, c.bytes, c.pipeOps)[c.algo][c.proto], c.channels, c.warps}
		if got != want {
			t.Errorf("%s of %d B: %+v, want %+v", c.coll, c.bytes, got, want)
		}
	}
}

func TestChooseFromEdges(t *testing.T) {
	one := hgxH100(t, 1)
	var none nccl.CostTable
	for a, p := range nccl.Cells {
		none[a][p] = nccl.Unavailable
	}
	if got := one.ChooseFrom(none, 1024); got.Algo != -1 || got.Proto != -1 {
		t.Errorf("nothing available, chosen %+v", got)
	}
	tie := none
	tie[nccl.AlgoRing][nccl.ProtoSimple], tie[nccl.AlgoNVLS][nccl.ProtoSimple], tie[nccl.AlgoRing][nccl.ProtoLL] = 5, 5, -1024
	if got := one.ChooseFrom(tie, 1024); got.Algo != nccl.AlgoRing || got.Proto != nccl.ProtoSimple {
		t.Errorf("a tie goes to the first cell, chosen %+v", got)
	}
	alone := &Tuning{NNodes: 1, NRanks: 1, NChannels: 1}
	if got := alone.Table(nccl.CollAllReduce, 1024, 1)[nccl.AlgoRing][nccl.ProtoSimple]; got != 0 {
		t.Errorf("a single rank takes %v us, want 0", got)
	}
}

func TestReadErrors(t *testing.T) {
	good := `{"format":"nccl-tuner-go/tuning","version":1,"nccl":"2.30.7","tunings":[{"nodes":1,"ranks":8,"channels":24,` +
		`"min_comp_cap":90,"cpu_arch":1,"max_threads":{"ring":[512,640,512]},"thread_thresholds":{"ring":[64,8,64]},` +
		`"latency_us":{"allreduce":{"ring":[15,1,2]}},"bandwidth_gbps":{"allreduce":{"ring":[80,1,2]}}}]}`
	if _, err := Read(strings.NewReader(good), "good.json"); err != nil {
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
		_, err := Read(strings.NewReader(text), "bad.json")
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "bad.json:") {
			t.Errorf("%s: error %v, want one that says %q", c.to, err, c.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	if data, err := os.ReadFile(hgxH100File); err == nil {
		f.Add(data)
	}
	f.Add([]byte(`{"nodes":{"1":{"nNodes":1,"nRanks":8,"nChannels":2}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		set, err := Read(bytes.NewReader(data), "fuzz.json")
		if err != nil {
			return
		}
		for _, tuning := range set.Tunings {
			for coll := range nccl.Coll(nccl.NumColls) {
				tuning.Choose(coll, 1<<20, 1)
			}
		}
	})
}

func BenchmarkTable(b *testing.B) {
	tuning := hgxH100(b, 2)
	for b.Loop() {
		tuning.Table(nccl.CollAllReduce, 1<<20, 1)
	}
}

func ExampleTuning_Choose() {
	f, err := os.Open(hgxH100File)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer f.Close()
	set, err := Read(f, hgxH100File)
	if err != nil {
		fmt.Println(err)
		return
	}
	t := set.For(4, 32)
	for _, bytes := range []int64{1 << 10, 1 << 20, 1 << 30} {
		c := t.Choose(nccl.CollAllReduce, bytes, 1)
		fmt.Printf("%d B: %s/%s %.0f us, %d channels\n", bytes, c.Algo, c.Proto, c.Micros, c.Channels)
	}
	// Output:
	// 1024 B: tree/ll 35 us, 1 channels
	// 1048576 B: tree/ll128 83 us, 16 channels
	// 1073741824 B: ring/simple 5814 us, 16 channels
}

// NVLS over several nodes has no more channels than the rings since NCCL 2.29.2 (src/enqueue.cc).
func TestChannels(t *testing.T) {
	two := Tuning{NNodes: 2, NRanks: 16, NChannels: 8, NVLSChannels: 16}
	for algo, want := range map[nccl.Algo]int{nccl.AlgoRing: 8, nccl.AlgoNVLS: 8, nccl.AlgoNVLSTree: 16, nccl.AlgoPAT: 8} {
		if got := two.Channels(algo); got != want {
			t.Errorf("%s: %d channels, want %d", algo, got, want)
		}
	}
	two.NCCL = 22809
	if got := two.Channels(nccl.AlgoNVLS); got != 16 {
		t.Errorf("NCCL %s: %d channels, want 16", two.NCCL, got)
	}
}
