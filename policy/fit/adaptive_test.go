package fit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/simulate"
	"github.com/nccl-tuner-go/nccl-tuner-go/configs"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
)

// spaceOf is everything that was measured of a grid.
func spaceOf(g *Group) Space {
	s := Space{Key: g.Key, Sizes: g.Sizes()}
	for _, c := range g.Configs() {
		if !slices.Contains(s.Families, c.FamilyKey) {
			s.Families = append(s.Families, c.FamilyKey)
		}
		if c.Channels > 0 && !slices.Contains(s.Channels, c.Channels) {
			s.Channels = append(s.Channels, c.Channels)
		}
	}
	slices.Sort(s.Channels)
	return s
}

// replay is an adaptive sweep of a grid that was measured whole, and what came of verifying it.
type replay struct {
	share  float64 // of the time that the whole grid takes
	regret float64 // mean of the fastest found / the fastest there is, the default among both
	runs   int
	next   Next // the last

	verifiedShare, verified, worst float64 // the same, and the most, of the sweep with one verification
}

// A run starts up, then makes so many calls at each size: nccl-tests' 20 and 5 to
// warm up, out-of-place and in-place. One that fails takes its start.
const (
	startMicros = 5e6
	calls       = 50
)

func costOf(cells []Cell) float64 {
	us := startMicros
	for _, c := range cells {
		us += calls * c.Micros
	}
	return us
}

// ownMost gives a grid without a measured default that of a library which uses most channels.
func ownMost(g *Group) *Group {
	if len(g.Default) > 0 {
		return g
	}
	all := *g
	s := spaceOf(g)
	for _, b := range s.Sizes {
		d := Cell{Config: unknownConfig, Bytes: b, Micros: math.Inf(1), Reps: 1}
		for _, f := range s.Families {
			if c, ok := g.at(Config{f, s.most(f.Algo)}, b); ok {
				d.Micros = min(d.Micros, c.Micros)
			}
		}
		all.Default = append(all.Default, d)
	}
	return &all
}

func replayed(t *testing.T, truth *Group, noise float64, seed uint64) replay {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 21))
	noisy := func(cells []Cell) (all []Cell) {
		for _, c := range cells {
			c.Micros *= math.Exp(noise * rng.NormFloat64())
			all = append(all, c)
		}
		return all
	}
	truth = ownMost(truth)
	space, least := spaceOf(truth), truth.fastest()
	whole, spent := costOf(truth.Default), 0.0
	for _, c := range truth.Configs() {
		whole += costOf(truth.cellsOf(c))
	}
	seen := &Group{Key: truth.Key, Noise: truth.Noise}
	var r replay
	for r.next = space.Next(seen); len(r.next.Runs) > 0; r.next = space.Next(seen) {
		for _, run := range r.next.Runs {
			if r.runs++; r.runs > 1+2*len(space.Channels)*len(space.Families) {
				t.Fatalf("the sweep does not end: %+v", r.next)
			}
			if run.Configs == nil {
				spent += costOf(truth.Default)
				seen.Default = noisy(truth.Default)
				continue
			}
			var cells []Cell
			for k, b := range run.Sizes {
				if c, ok := truth.at(run.Configs[k], b); ok {
					cells = append(cells, c)
				} else {
					space.Failed = append(space.Failed, run.Configs[k])
				}
			}
			spent += costOf(cells)
			seen.Cells = append(seen.Cells, noisy(cells)...)
		}
		slices.SortFunc(seen.Cells, Cell.compare)
	}
	r.share = spent / whole
	contenders := space.Contenders(seen)
	for k := range MostContenders + 1 {
		cells := truth.Default
		if k > 0 {
			cells = nil
			for _, b := range space.Sizes {
				if k <= len(contenders[b]) {
					if c, ok := truth.at(contenders[b][k-1], b); ok {
						cells = append(cells, c)
					}
				}
			}
		}
		if len(cells) > 0 {
			spent += costOf(cells)
		}
	}
	spent += costOf(truth.Default) // at the end, to see what drifted
	r.verifiedShare = spent / whole
	for b, us := range least {
		found := math.Inf(1)
		for _, c := range append(slices.Clone(seen.Default), seen.Cells...) {
			if cell, ok := truth.at(c.Config, b); c.Bytes == b && c.Micros < found {
				if found = c.Micros; ok {
					found = cell.Micros
				}
			}
		}
		d, _ := truth.defaultAt(b)
		verified := truth.verifiedBest(d.Micros, contenders[b], b)
		n := float64(len(least))
		r.regret, r.verified, r.worst = r.regret+found/us/n, r.verified+verified/us/n, max(r.worst, verified/us)
	}
	return r
}

// verifiedBest is the least time of the default and some configurations.
func (g *Group) verifiedBest(us float64, configs []Config, bytes uint64) float64 {
	for _, c := range configs {
		if cell, ok := g.at(c, bytes); ok {
			us = min(us, cell.Micros)
		}
	}
	return us
}

func TestTargetAdaptiveSweep(t *testing.T) {
	grids, _ := realGrids(t)
	for _, target := range []struct {
		grid            string
		share, aim      float64
		verified, aimed float64
	}{{"AR1", 0.18, 0.14, 0.26, 0.25}, {"AR2", 0.18, 0.17, 0.25, 0.25}, {"RS1", 0.31, 0.28, 0.47, 0.5}, {"RS2", 0.5, 0.47, 0.63, 0.5}} {
		g := grids[target.grid]
		if g == nil {
			continue
		}
		r := replayed(t, g, 0, 0)
		figure(t, target.grid+" adaptive sweep, share of the time", r.share, target.share, target.aim)
		figure(t, target.grid+" adaptive sweep, regret", r.regret, 1.01, 1.005)
		figure(t, target.grid+" sweep and verification, share of the time", r.verifiedShare, target.verified, target.aimed)
		figure(t, target.grid+" sweep and verification, regret", r.verified, 1.005, 1.005)
		if most := slices.Max(spaceOf(g).Channels); r.next.Edge != most {
			t.Errorf("%s: %d channels are said to win at the edge, and it is %d", target.grid, r.next.Edge, most)
		}
		const seeds = 5
		var share, regret float64
		for seed := range uint64(seeds) {
			r := replayed(t, g, 0.01, seed)
			share, regret = share+r.verifiedShare/seeds, regret+r.verified/seeds
		}
		figure(t, target.grid+" with 1 % noise added, verified regret", regret, 1.007, 1.005)
		t.Logf("    share of the time with noise %.3f", share)
	}
}

// The default and the best predicted, measured once more without noise.
func TestTargetVerification(t *testing.T) {
	grids, names := realGrids(t)
	for _, share := range []struct {
		of        float64 // 0: every other size
		most, aim float64
	}{{0, 1.008, 1.003}, {0.5, 1.004, 1.004}, {0.25, 1.005, 1.011}} {
		sum, n := 0.0, 0.0
		for _, name := range names {
			g := grids[name]
			var folds []fold
			if share.of == 0 {
				folds = foldsBySize(g)
			}
			for seed := range uint64(5) {
				if share.of > 0 {
					folds = append(folds, fold{scatter(g, share.of, 1000+seed), g.Sizes()})
				}
			}
			regret, decisions := 0.0, 0.0
			for _, f := range folds {
				s := spaceOf(g)
				s.Sizes = f.sizes
				contenders, least := s.Contenders(f.train), g.fastest()
				for _, b := range f.sizes {
					us := math.Inf(1)
					if d, ok := g.defaultAt(b); ok {
						us = d.Micros
					}
					regret, decisions = regret+g.verifiedBest(us, contenders[b], b)/least[b], decisions+1
				}
			}
			t.Logf("    %s %.4f", name, regret/decisions)
			sum, n = sum+regret/decisions, n+1
		}
		figure(t, fmt.Sprintf("share %.2f of the cells, verified regret", share.of), sum/n, share.most, share.aim)
	}
}

// Machines that nobody measured: NCCL's costs and what they do not know.
func TestAdaptiveSweepOfSimulatedMachines(t *testing.T) {
	machine, err := topo.Read("dgx-h100.xml", strings.NewReader(configs.DGXH100))
	if err != nil {
		t.Fatal(err)
	}
	comms, err := channels.Tune(machine, channels.TuneOptions{NCCL: nccl.Reference}, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, coll := range []nccl.Coll{nccl.CollAllReduce, nccl.CollReduceScatter, nccl.CollAllGather, nccl.CollBroadcast, nccl.CollReduce} {
		var all []replay
		for seed := range uint64(4) {
			for _, comm := range comms {
				o := simulate.Options{
					Tuning: comm.Tuning, System: "test", Seed: seed, Repetitions: 1, Noise: 0.007,
					Colls: []nccl.Coll{coll}, Channels: []int{1, 2, 4, 8, 16, 24, 32},
				}
				for n := uint64(4 << 10); n <= 1<<30; n *= 2 {
					o.Sizes = append(o.Sizes, n)
				}
				for _, g := range pooled(simulate.Sweep(o)).Groups {
					all = append(all, replayed(t, g, 0, seed))
				}
			}
		}
		share, regret, verified, worst := 0.0, 0.0, 0.0, 0.0
		for _, r := range all {
			n := float64(len(all))
			share, regret, verified, worst = share+r.verifiedShare/n, regret+r.regret/n, verified+r.verified/n, max(worst, r.worst)
		}
		figure(t, coll.String()+", simulated, regret of the sweep", regret, 1.01, 1.005)
		figure(t, coll.String()+", simulated, share with verification", share, 0.55, 0.5)
		figure(t, coll.String()+", simulated, verified regret", verified, 1.002, 1.002)
		figure(t, coll.String()+", simulated, verified, worst", worst, 1.07, 1.02)
	}
}

// broadcastLike is a grid on which each channel costs latency: one wins at small sizes, many at large.
func broadcastLike(perChannel float64) *Group {
	g := &Group{Key: Key{nccl.CollBroadcast, 1, 8}, Noise: 0.01}
	latency, bandwidth, limit := []float64{6, 9, 15}, []float64{5, 18, 20}, []float64{90, 200, 240}
	for p := range nccl.Proto(nccl.NumProtos) {
		for _, c := range []int{1, 2, 4, 8, 16, 24, 32} {
			for b := uint64(1 << 10); b <= 1<<30; b *= 2 {
				us := latency[p]*(1+perChannel*float64(c-1)) + float64(b)/1000/min(bandwidth[p]*float64(c), limit[p])
				g.Cells = append(g.Cells, Cell{Config: Config{FamilyKey{nccl.AlgoRing, p}, c}, Bytes: b, Micros: us, Reps: 1})
			}
		}
	}
	slices.SortFunc(g.Cells, Cell.compare)
	return g
}

// A sweep that begins with most channels and ends where the next fewer gain nothing misses the other end.
func TestAdaptiveSweepFindsFewChannels(t *testing.T) {
	for _, perChannel := range []float64{0.045, 0.09, 0.135} {
		g := broadcastLike(perChannel)
		r := replayed(t, g, 0, 0)
		name := fmt.Sprintf("%.1f %% of latency a channel", 100*perChannel)
		figure(t, name+", share of the time", r.share, 0.3, 0.4)
		figure(t, name+", regret", r.regret, 1.01, 1.01)
		figure(t, name+", verified regret", r.verified, 1.008, 1.005)
	}
}

// What was measured is all that counts: a sweep goes on where it was.
func TestAdaptiveSweepStages(t *testing.T) {
	m := smallMachine()
	g := pooled(m.sweep(1, 1)).Groups[0]
	s := spaceOf(g)
	if n := s.Next(nil); n.Stage != StageDefault || len(n.Runs) != 1 || n.Runs[0].Configs != nil || len(n.Runs[0].Sizes) != len(s.Sizes) {
		t.Errorf("nothing measured: %+v", n)
	}
	most, fewest := s.Channels[len(s.Channels)-1], s.Channels[0]
	all, none := func(Cell) bool { return true }, func(Cell) bool { return false }
	if n := s.Next(g.subset(none, all)); n.Stage != StageMost || len(n.Runs) != len(s.Families) || n.Runs[0].Configs[0].Channels != most {
		t.Errorf("only the default measured: %+v", n)
	}
	missing := Config{s.Families[1], most}
	first := g.subset(func(c Cell) bool { return c.Config.Channels == most && c.Config != missing }, all)
	if n := s.Next(first); len(n.Runs) != 1 || n.Runs[0].Configs[0] != missing || len(n.Runs[0].Sizes) != len(s.Sizes) {
		t.Errorf("one run is missing: %+v", n)
	}
	s.Failed = []Config{missing}
	if n := s.Next(first); n.Stage != StageFewest || !slices.ContainsFunc(n.Runs, func(r Run) bool { return r.Configs[0] == Config{missing.FamilyKey, fewest} }) {
		t.Errorf("the missing run failed: %+v", n)
	}
	// What fails at both ends is not there at all.
	s.Failed = append(s.Failed, Config{missing.FamilyKey, fewest})
	for n := s.Next(first); len(n.Runs) > 0; n = s.Next(first) {
		for _, r := range n.Runs {
			for i, c := range r.Configs {
				if c.FamilyKey == missing.FamilyKey {
					t.Fatalf("planned after it failed twice: %+v", n)
				}
				cell, _ := g.at(c, r.Sizes[i])
				first.Cells = append(first.Cells, cell)
			}
		}
		slices.SortFunc(first.Cells, Cell.compare)
	}
	s.Failed = nil
	if n := s.Next(g); n.Stage != StageOver || len(n.Runs) > 0 {
		t.Errorf("all measured: %+v", n)
	}
}

// What the machine does not have is not planned.
func TestAdaptiveSweepWithinTheMachine(t *testing.T) {
	s := Space{
		Key: Key{nccl.CollAllReduce, 1, 8}, Sizes: []uint64{1 << 20}, Channels: []int{1, 8, 16, 24, 32},
		Families: []FamilyKey{{nccl.AlgoRing, nccl.ProtoLL}, {nccl.AlgoNVLS, nccl.ProtoSimple}},
		Limits:   map[nccl.Algo]int{nccl.AlgoRing: 20, nccl.AlgoNVLS: 16},
	}
	if got := fmt.Sprint(s.channels(nccl.AlgoRing), s.channels(nccl.AlgoNVLS)); got != "[1 8 16 20] [1 8 16]" {
		t.Errorf("channels %s", got)
	}
	g := &Group{Key: s.Key, Noise: assumedNoise, Default: []Cell{{Bytes: 1 << 20, Micros: 50}}}
	for _, r := range s.Next(g).Runs {
		if c := r.Configs[0]; c.Channels != s.Limits[c.Algo] {
			t.Errorf("planned %v", c)
		}
	}
}
