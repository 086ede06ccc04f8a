package tuning_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/configs"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// hgxH100 is NCCL's estimates over so many nodes of eight GPUs.
func hgxH100(t testing.TB, nodes int) *tuning.Tuning {
	t.Helper()
	machine, err := topo.Read("dgx-h100.xml", strings.NewReader(configs.DGXH100))
	if err != nil {
		t.Fatal(err)
	}
	comms, err := channels.Tune(machine, channels.TuneOptions{Settings: topo.Settings{NCCL: nccl.Reference}}, nodes)
	if err != nil {
		t.Fatal(err)
	}
	return comms[0].Tuning
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
		want := tuning.Choice{Config: nccl.Config{Cell: nccl.Cell{Algo: c.algo, Proto: c.proto}, Channels: c.channels},
			Micros: one.Table(c.coll, c.bytes, c.pipeOps)[c.algo][c.proto], Warps: c.warps}
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
	tie[nccl.AlgoRing][nccl.ProtoSimple], tie[nccl.AlgoNVLS][nccl.ProtoSimple], tie[nccl.AlgoRing][nccl.ProtoLL] = 5,
		5, -1024
	if got := one.ChooseFrom(tie, 1024); got.Algo != nccl.AlgoRing || got.Proto != nccl.ProtoSimple {
		t.Errorf("a tie goes to the first cell, chosen %+v", got)
	}
	alone := &tuning.Tuning{Facts: tuning.Facts{Comm: nccl.Comm{Nodes: 1, Ranks: 1}}, NChannels: 1}
	if got := alone.Table(nccl.CollAllReduce, 1024, 1)[nccl.AlgoRing][nccl.ProtoSimple]; got != 0 {
		t.Errorf("a single rank takes %v us, want 0", got)
	}
}

// written is the file of one node's costs.
func written(t testing.TB) []byte {
	t.Helper()
	text, err := json.Marshal(&tuning.Set{NCCL: nccl.Reference, Tunings: []*tuning.Tuning{hgxH100(t, 1)}})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestReadErrors(t *testing.T) {
	good := string(written(t))
	if _, err := tuning.Read(strings.NewReader(good), "good.json"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, want string }{
		{`"nodes":{"1"`, `"hosts":{"1"`, `no "nodes"`},
		{`"nodes":{"1"`, `"nodes":{"one"`, `"one" is not a number of hosts`},
		{`"nccl":"2.30.7"`, `"nccl":"new"`, "nccl: "},
		{`"nRanks":8`, `"nRanks":0`, "0 ranks on 1 nodes"},
		{`"nChannels":24`, `"nChannels":0`, "0 channels"},
		{`"bw":[[[0,`, `"bw":[[[-80,`, "bandwidth -80"},
		{`"bw":[[[0,`, `"bw":[[["x",`, "bad.json:1:"},
		{`[512,640,512]`, `[512,9999,512]`, "9999 threads"},
		{good[len(good)-1:], "", "bad.json:1:"},
	} {
		bad := strings.Replace(good, c.from, c.to, 1)
		if c.to == "" {
			bad = strings.TrimSuffix(good, c.from)
		}
		_, err := tuning.Read(strings.NewReader(bad), "bad.json")
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "bad.json:") {
			t.Errorf("%s: error %v, want one that says %q", c.to, err, c.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"nodes":{"1":{"nNodes":1,"nRanks":8,"nChannels":2}}}`))
	f.Add(written(f))
	f.Fuzz(func(t *testing.T, data []byte) {
		set, err := tuning.Read(bytes.NewReader(data), "fuzz.json")
		if err != nil {
			return
		}
		for _, tuning := range set.Tunings {
			for coll := range nccl.Coll(nccl.NumColls) {
				c := tuning.Choose(coll, 1<<20, 1)
				if c.Algo < 0 {
					continue
				}
				if got := tuning.Table(coll, 1<<20, 1)[c.Algo][c.Proto]; got != c.Micros || !(got >= 0) ||
					c.Channels < 1 || c.Channels > nccl.MaxChannels {
					t.Errorf("%s: %+v, in the table %v", coll, c, got)
				}
			}
		}
	})
}

func BenchmarkWorstRead(b *testing.B) {
	hostile.Benchmark(b, func(text []byte) error {
		_, err := tuning.Read(bytes.NewReader(text), "x.json")
		return err
	},
		hostile.Text{Head: `{"nodes":{`, Unit: `"%d":{"nNodes":%d},`, Tail: `"x":{}}}`},
		hostile.Text{Head: `{"nodes":{"`, Unit: "x", Tail: `":{}}}`},
		hostile.Text{Head: `{"nodes":{"1":{"nNodes":`, Unit: "1", Tail: "}}}"},
		hostile.Text{Head: `{"nodes":{},"nccl":"`, Unit: "1", Tail: `"}`},
		hostile.Text{Head: `{"nodes":{"1":{"lat":[[[`, Unit: "1,", Tail: "1]]]}}}"},
	)
}

func BenchmarkTable(b *testing.B) {
	tuning := hgxH100(b, 2)
	for b.Loop() {
		tuning.Table(nccl.CollAllReduce, 1<<20, 1)
	}
}

func ExampleTuning_Choose() {
	machine, err := topo.Read("dgx-h100.xml", strings.NewReader(configs.DGXH100))
	if err != nil {
		fmt.Println(err)
		return
	}
	comms, err := channels.Tune(machine, channels.TuneOptions{Settings: topo.Settings{NCCL: nccl.Reference}}, 4)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, bytes := range []int64{1 << 10, 1 << 20, 1 << 30} {
		c := comms[0].Tuning.Choose(nccl.CollAllReduce, bytes, 1)
		fmt.Printf("%d B: %s/%s %.0f us, %d channels\n", bytes, c.Algo, c.Proto, c.Micros, c.Channels)
	}
	// Output:
	// 1024 B: tree/ll 35 us, 1 channels
	// 1048576 B: tree/ll128 83 us, 16 channels
	// 1073741824 B: ring/simple 5814 us, 16 channels
}

// NVLS over several nodes has no more channels than the rings since NCCL 2.29.2 (src/enqueue.cc).
func TestChannels(t *testing.T) {
	two := tuning.Tuning{Facts: tuning.Facts{Comm: nccl.Comm{Nodes: 2, Ranks: 16}}, NChannels: 8, NVLSChannels: 16}
	for algo, want := range map[nccl.Algo]int{nccl.AlgoRing: 8, nccl.AlgoNVLS: 8, nccl.AlgoNVLSTree: 16,
		nccl.AlgoPAT: 8} {
		if got := two.Channels(algo); got != want {
			t.Errorf("%s: %d channels, want %d", algo, got, want)
		}
	}
	two.NCCL = 22809
	if got := two.Channels(nccl.AlgoNVLS); got != 16 {
		t.Errorf("NCCL %s: %d channels, want 16", two.NCCL, got)
	}
}
