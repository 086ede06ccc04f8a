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

// On one node of Blackwell, 2.32.3 raises the latency of ring/simple by a factor that depends on the steps and the size
// (src/tuning/ring.cc). Before, it is 1.4, and 1 for AllReduce. Others have none: older GPUs and releases, rings that
// leave NVLink, and collectives with a root.
func TestGradualPlateau(t *testing.T) {
	for _, c := range []struct {
		version nccl.Version
		coll    nccl.Coll
		ranks   int
		each    int64 // bytes per channel and rank
		want    float32
		but     func(*tuning.Tuning)
	}{
		{23203, nccl.CollAllGather, 2, 1 << 10, 1, nil},
		{23203, nccl.CollAllGather, 3, 1 << 10, 1.3, nil},
		{23203, nccl.CollAllReduce, 2, 63, 1, nil},
		{23203, nccl.CollAllReduce, 2, 256 << 10, 1.3, nil},
		{23203, nccl.CollAllReduce, 2, 384 << 10, 1.2625, nil},
		{23203, nccl.CollAllReduce, 2, 1 << 20, 1.225, nil},
		{23203, nccl.CollReduceScatter, 72, 1 << 10, 1.4, nil},
		{23203, nccl.CollReduceScatter, 72, 512 << 10, 1.3, nil},
		{23102, nccl.CollAllGather, 2, 1 << 20, 1.4, nil},
		{23102, nccl.CollAllReduce, 8, 1 << 20, 1, nil},
		{23007, nccl.CollAllGather, 2, 1 << 20, 1, nil},
		{23203, nccl.CollBroadcast, 8, 1 << 20, 1, nil},
		{23203, nccl.CollReduce, 8, 1 << 20, 1, nil},
		{23203, nccl.CollAllGather, 72, 1 << 10, 1, func(t *tuning.Tuning) { t.MinCompCap = 90 }},
		{23203, nccl.CollAllGather, 72, 1 << 10, 1, func(t *tuning.Tuning) { t.RingNVLink = false }},
		{23203, nccl.CollAllGather, 72, 1 << 10, 1, func(t *tuning.Tuning) { t.Nodes = 2 }},
		{23203, nccl.CollAllReduce, 72, 1 << 10, 1.4, func(t *tuning.Tuning) { t.Nodes, t.MinCompCap = 2, 90 }},
	} {
		ring := tuning.Tuning{Facts: tuning.Facts{NCCL: c.version, MinCompCap: 100,
			Comm: nccl.Comm{Nodes: 1, Ranks: c.ranks}}, NChannels: 1, RingNVLink: true}
		if c.but != nil {
			c.but(&ring)
		}
		ring.Latencies[c.coll][nccl.AlgoRing][nccl.ProtoSimple] = 100
		ring.Bandwidths[c.coll][nccl.AlgoRing][nccl.ProtoSimple] = 1e12
		got := ring.Table(c.coll, c.each*int64(c.ranks), 1)[nccl.AlgoRing][nccl.ProtoSimple] / 100
		if d := got - c.want; d > 1e-4 || d < -1e-4 {
			t.Errorf("NCCL %s, %s of %d ranks, %d B each: factor %v, want %v", c.version, c.coll, c.ranks, c.each, got,
				c.want)
		}
	}
}

// The correction of NVLSTree on Arm ends at a smaller size on two nodes since 2.32.3 (src/tuning/nvls.cc).
func TestShorterCorrection(t *testing.T) {
	for _, c := range []struct {
		version   nccl.Version
		nodes     int
		bytes     int64
		corrected bool
	}{
		{23102, 2, 64 << 20, true}, {23203, 2, 64 << 20, false}, {23203, 2, 63 << 20, true}, {23203, 3, 64 << 20, true},
	} {
		tree := tuning.Tuning{Facts: tuning.Facts{NCCL: c.version, MinCompCap: 100, CPUArch: nccl.ArchARM, MinNetBW: 96,
			NVLS: true, Comm: nccl.Comm{Nodes: c.nodes, Ranks: 4 * c.nodes}}, NChannels: 1}
		tree.Bandwidths[nccl.CollAllReduce][nccl.AlgoNVLSTree][nccl.ProtoSimple] = 100
		plain := float32(c.bytes) / (1000 * 100)
		got := tree.Table(nccl.CollAllReduce, c.bytes, 1)[nccl.AlgoNVLSTree][nccl.ProtoSimple]
		if (got > plain*1.01) != c.corrected {
			t.Errorf("NCCL %s, %d nodes, %d B: %v us, %v without the correction", c.version, c.nodes, c.bytes, got, plain)
		}
	}
}
