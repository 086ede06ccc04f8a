package fit

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

func TestRefusedSamples(t *testing.T) {
	good := smallMachine().sample(nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL}, Channels: 4},
		1<<20, bench.SelectionForced, rand.New(rand.NewPCG(1, 1)))
	for _, test := range []struct {
		reason string
		change func(*bench.Sample)
	}{
		{RefusedComm, func(s *bench.Sample) { s.Nodes = 0 }},
		{RefusedComm, func(s *bench.Sample) { s.Ranks = 0 }},
		{RefusedOneRank, func(s *bench.Sample) { s.Nodes, s.Ranks = 1, 1 }},
		{RefusedLabel, func(s *bench.Sample) { s.Proto = bench.Unknown }},
	} {
		bad := good
		test.change(&bad)
		set := pooled([]bench.Sample{good, bad})
		if set.Used != 1 || len(set.Refused) != 1 || set.Refused[0] != (Refusal{test.reason, 1}) {
			t.Errorf("used %d, refused %v; want 1 and %q", set.Used, set.Refused, test.reason)
		}
	}
	other := good
	other.InPlace = true
	if set := pooled([]bench.Sample{good, other}); set.Used != 1 ||
		!strings.HasPrefix(set.Refused[0].Reason, "in-place; out-of-place is kept (normal") {
		t.Errorf("in-place beside out-of-place: %+v", set)
	}
	other.DType = "half"
	if set := pooled([]bench.Sample{good, good, other}); set.Used != 2 ||
		!strings.HasPrefix(set.Refused[0].Reason, "other data types or reductions; "+good.DType) {
		t.Errorf("another data type: %+v", set)
	}
}

// A sweep that does not name its data type is not of another one than the logs that verify it; what is refused is not
// counted as simulated.
func TestUnnamedDataType(t *testing.T) {
	m := smallMachine()
	rng := rand.New(rand.NewPCG(1, 1))
	c := nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL}, Channels: 4}
	var all []bench.Sample
	for i := range 6 {
		s := m.sample(c, 1<<20, bench.SelectionForced, rng)
		switch {
		case i < 4:
			s.DType, s.RedOp = "", ""
		case i == 4:
			s.DType, s.RedOp, s.Verify = "float", "sum", true
		default:
			s.DType, s.RedOp, s.Simulated = "half", "sum", true
		}
		all = append(all, s)
	}
	all = append(all, all[4])
	set := pooled(all)
	if g := set.Groups[0]; set.Used != 6 || set.Simulated != 0 || len(g.Points) != 1 || !g.Points[0].Verified ||
		g.Points[0].Reps != 6 {
		t.Errorf("used %d, simulated %d, refused %v, %+v", set.Used, set.Simulated, set.Refused, set.Groups[0].Points)
	}
}

// Labels that take the same time are named.
func TestAliasesAreNamed(t *testing.T) {
	m := smallMachine()
	samples := m.sweep(1, 4)
	rng := rand.New(rand.NewPCG(9, 9))
	for i := range samples {
		s := &samples[i]
		if s.Bytes == 1<<20 && s.Selection == bench.SelectionForced && s.Algo == nccl.AlgoRing &&
			s.Proto == nccl.ProtoLL {
			c := nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoSimple}, Channels: s.Channels}
			s.Micros = m.micros(c, s.Bytes) * math.Exp(0.005*rng.NormFloat64())
		}
	}
	g := pooled(samples).Groups[0]
	if len(g.Aliases) != 1 || g.Aliases[0].Bytes != 1<<20 {
		t.Fatalf("aliases %+v, want one at 1MiB", g.Aliases)
	}
}

// The labels of a real sweep that lie are found, and no others.
func TestAliasesOfARealSweep(t *testing.T) {
	for _, g := range append(grids(t), reduceScatters(t)...) {
		at := map[uint64]int{}
		for _, alias := range g.Aliases {
			at[alias.Bytes]++
		}
		lies := g.Coll == nccl.CollReduceScatter && g.Nodes == 2
		for _, b := range g.Sizes() {
			if coincide := lies && b >= 128<<10 && b <= 2<<20; coincide && at[b] != 3 || !lies && at[b] > 0 {
				t.Errorf("%s: %d pairs at %s", g.Key, at[b], nccl.FormatBytes(b))
			}
		}
	}
}
