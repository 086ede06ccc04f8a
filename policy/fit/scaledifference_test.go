package fit

import (
	"math"
	"reflect"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// A difference is named where the fastest on fewer nodes is slower, over the sizes at which it is the same one.
func TestScaleDifferences(t *testing.T) {
	config := func(a nccl.Algo, channels int) nccl.Config {
		return nccl.Config{Cell: nccl.Cell{Algo: a, Proto: nccl.ProtoLL128}, Channels: channels}
	}
	ring, fewer, tree := config(nccl.AlgoRing, 32), config(nccl.AlgoRing, 16), config(nccl.AlgoTree, 32)
	two := gridOf(2, map[nccl.Config][]float64{
		ring: {80, 80, 80, 80, 120, 120}, fewer: {90, 90, 90, 90, 90, 120}, tree: {95, 95, 95, 60, 120, 120}})
	four := gridOf(4, map[nccl.Config][]float64{
		ring: {70, 80, 84, 80, 120, 120}, fewer: {90, 70, 70, 80, 120, 60}}) // tree was not measured
	other := gridOf(3, nil)
	other.Ranks = 12 // of another number of ranks per node
	one := gridOf(1, map[nccl.Config][]float64{tree: {50, 50, 50, 50, 50, 50}})
	set := &Set{Groups: []*Group{one, two, other, four}}
	const mib = 1 << 20
	want := []ScaleDifference{
		{four.Key, two.Comm, nccl.Range{Min: 2 * mib, Max: 4 * mib}, ring, fewer, 1.2},
		{four.Key, two.Comm, nccl.Range{Min: 16 * mib, Max: 16 * mib}, fewer, unknownConfig, 1.2},
		{four.Key, two.Comm, nccl.Range{Min: 32 * mib, Max: 32 * mib}, unknownConfig, fewer, 100.0 / 60},
	}
	got := set.ScaleDifferences()
	for i := range got {
		got[i].Slower = math.Round(1e6*got[i].Slower) / 1e6
	}
	for i := range want {
		want[i].Slower = math.Round(1e6*want[i].Slower) / 1e6
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
}
