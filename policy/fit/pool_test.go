package fit

import (
	"maps"
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
		if set.Used != 1 || len(set.Refused) != 1 || set.Refused[0] != (Refusal{test.reason, 1, false}) {
			t.Errorf("used %d, refused %v; want 1 and %q", set.Used, set.Refused, test.reason)
		}
	}
	other := good
	other.InPlace = true
	if set := pooled([]bench.Sample{good, other}); set.Used != 1 ||
		!set.Refused[0].NotNeeded || !strings.HasPrefix(set.Refused[0].Reason, "in-place; out-of-place is kept (normal") {
		t.Errorf("in-place beside out-of-place: %+v", set)
	}
	other.DType = "half"
	if set := pooled([]bench.Sample{good, good, other}); set.Used != 2 ||
		!strings.HasPrefix(set.Refused[0].Reason, "other data types or reductions; "+good.DType) {
		t.Errorf("another data type: %+v", set)
	}
}

// What was measured with NCCL_ALGO alone is not said to be nothing.
func TestOnlyDefault(t *testing.T) {
	m, rng := smallMachine(), rand.New(rand.NewPCG(1, 1))
	byNCCL := m.sample(nccl.Config{Cell: nccl.NoCell}, 1<<20, bench.SelectionDefault, rng)
	ring := byNCCL
	ring.Algo, ring.Selection = nccl.AlgoRing, bench.SelectionForced
	for want, samples := range map[string][]bench.Sample{
		"nothing but the default was measured":                                           {byNCCL},
		"what was measured besides the default does not tell its algorithm and protocol": {byNCCL, ring},
	} {
		if set := pooled(samples); len(set.Groups) != 1 || set.Groups[0].OnlyDefault() != want {
			t.Errorf("%+v, want %q", set, want)
		}
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
	if g := set.Groups[0]; set.Used != 6 || set.Simulated != 0 || len(g.Points) != 1 || g.Points[0].Verified == 0 ||
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

// A run that forced a number of channels is compared with the default under each bound that allows this number.
func TestForcedChannelsAreWithinBounds(t *testing.T) {
	under := func(options, variables, forced string) *bench.Setup {
		return &bench.Setup{Options: options, Variables: variables, MinChannels: forced}
	}
	sample := func(selection bench.Selection, channels int, setup *bench.Setup) bench.Sample {
		return bench.Sample{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 1 << 20}, Comm: nccl.Comm{Nodes: 1, Ranks: 4},
			Config:    nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoSimple}, Channels: channels},
			Selection: selection, Micros: 10, Setup: setup}
	}
	const bound = "NCCL_MAX_NCHANNELS=24"
	for _, test := range []struct {
		name     string
		defaults []string // variables of defaults
		forced   *bench.Setup
		channels int
		runs     string
		used     map[string]int // rows, by conditions
	}{
		{"within", []string{bound}, under("-g 4", "", "8"), 8, "", map[string]int{"-g 4 " + bound: 2}},
		{"of which a small call uses fewer", []string{bound}, under("-g 4", "", "8"), 2, "",
			map[string]int{"-g 4 " + bound: 2}},
		{"above", []string{bound}, under("-g 4", "", "32"), 32, "",
			map[string]int{"-g 4 " + bound: 1, "-g 4": 1}},
		{"below the least", []string{"NCCL_MAX_CTAS=24 NCCL_MIN_CTAS=12"}, under("-g 4", "", "8"), 8, "",
			map[string]int{"-g 4 NCCL_MAX_CTAS=24 NCCL_MIN_CTAS=12": 1, "-g 4": 1}},
		{"a least number alone", []string{bound}, under("-g 4", "", "8"), 16, "",
			map[string]int{"-g 4 " + bound: 1, "-g 4": 1}},
		{"other variables", []string{bound + " NCCL_NVLS_ENABLE=0"}, under("-g 4", "NCCL_NVLS_ENABLE=0", "8"), 8, "",
			map[string]int{"-g 4 " + bound + " NCCL_NVLS_ENABLE=0": 2}},
		{"not the same variables", []string{bound}, under("-g 4", "NCCL_NVLS_ENABLE=0", "8"), 8, "",
			map[string]int{"-g 4 " + bound: 1, "-g 4 NCCL_NVLS_ENABLE=0": 1}},
		{"not the same options", []string{bound}, under("-g 4 -G 10", "", "8"), 8, "",
			map[string]int{"-g 4 " + bound: 1, "-g 4 -G 10": 1}},
		{"both defaults", []string{bound, ""}, under("-g 4", "", "8"), 8, "",
			map[string]int{"-g 4 " + bound: 2, "-g 4": 2}},
		{"those of a name", []string{bound, ""}, under("-g 4", "", "8"), 8, "-g 4 " + bound,
			map[string]int{"-g 4 " + bound: 2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := NewPool()
			p.Runs = test.runs
			for _, variables := range test.defaults {
				s := sample(bench.SelectionDefault, 4, under("-g 4", variables, ""))
				p.Add(&s)
			}
			s := sample(bench.SelectionForced, test.channels, test.forced)
			p.Add(&s)
			used := map[string]int{}
			for conditions, n := range p.Set().Groups[0].Under {
				used[conditions.String()] = n
			}
			if !maps.Equal(used, test.used) {
				t.Errorf("%v, want %v", used, test.used)
			}
		})
	}
}
