package tuning_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/configs"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
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
