package fit

import (
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

// replay is an adaptive sweep of a grid that was measured whole.
type replay struct {
	share  float64 // of the time that the whole grid takes
	regret float64 // mean of chosen / best
	runs   int
	next   Next // the last
}

// A run starts up, then makes so many calls at each size: nccl-tests' 20 and 5 to
// warm up, out-of-place and in-place.
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

func replayed(t *testing.T, truth *Group, noise float64, seed uint64) replay {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 21))
	noisy := func(c Cell) Cell {
		c.Micros *= math.Exp(noise * rng.NormFloat64())
		return c
	}
	space := spaceOf(truth)
	_, best := truth.winners()
	defaults := truth.Default
	if len(defaults) == 0 { // not measured: what it takes to measure it counts all the same
		defaults = best
	}
	whole, spent := costOf(defaults), 0.0
	for _, c := range truth.Configs() {
		whole += costOf(truth.cellsOf(c))
	}
	seen := &Group{Key: truth.Key, Noise: truth.Noise}
	var r replay
	for r.next = space.Next(seen); len(r.next.Runs) > 0; r.next = space.Next(seen) {
		for _, run := range r.next.Runs {
			if r.runs++; r.runs > 1+len(space.Channels)*len(space.Families) {
				t.Fatalf("the sweep does not end: %+v", r.next)
			}
			if run.Default {
				spent += costOf(defaults)
				for _, c := range defaults {
					seen.Default = append(seen.Default, noisy(c))
				}
				continue
			}
			var cells []Cell
			for _, c := range truth.cellsOf(run.Config) {
				if slices.Contains(run.Sizes, c.Bytes) {
					cells = append(cells, noisy(c))
				}
			}
			if len(cells) == 0 {
				space.Failed = append(space.Failed, run.Config)
			}
			spent += costOf(cells)
			seen.Cells = append(seen.Cells, cells...)
		}
		slices.SortFunc(seen.Cells, Cell.compare)
	}
	r.share = spent / whole
	sizes, chosen := seen.winners()
	if len(sizes) != len(best) {
		t.Fatalf("%d of %d sizes have a choice", len(sizes), len(best))
	}
	for i, b := range sizes {
		c, _ := truth.at(chosen[i].Config, b)
		r.regret += c.Micros / best[i].Micros / float64(len(sizes))
	}
	return r
}

func TestTargetAdaptiveSweep(t *testing.T) {
	grids := realGrids(t)
	for _, target := range []struct {
		grid       string
		share, aim float64
	}{{"AR1", 0.25, 0.14}, {"AR2", 0.25, 0.17}, {"RS1", 0.38, 0.28}, {"RS2", 0.60, 0.47}} {
		g := grids[target.grid]
		r := replayed(t, g, 0, 0)
		figure(t, target.grid+" adaptive sweep, share of the time", r.share, target.share, target.aim)
		figure(t, target.grid+" adaptive sweep, regret", r.regret, 1.006, 1.005)
		if most := slices.Max(spaceOf(g).Channels); r.next.Edge != most {
			t.Errorf("%s: %d channels are said to win at the edge, and it is %d", target.grid, r.next.Edge, most)
		}
		const seeds = 20
		var share, regret float64
		for seed := range uint64(seeds) {
			r := replayed(t, g, 0.01, seed)
			share, regret = share+r.share/seeds, regret+r.regret/seeds
		}
		figure(t, target.grid+" with 1 % noise added, regret", regret, 1.007, 1.005)
		t.Logf("    share of the time with noise %.3f", share)
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
	var shares, regrets []float64
	for seed := range uint64(10) {
		for _, c := range comms {
			o := simulate.Options{
				Tuning: c.Tuning, System: "test", Seed: seed, Repetitions: 1, Noise: 0.007,
				Colls: []nccl.Coll{nccl.CollAllReduce, nccl.CollReduceScatter}, Channels: []int{1, 2, 4, 8, 16, 24, 32},
			}
			for n := uint64(4 << 10); n <= 1<<30; n *= 2 {
				o.Sizes = append(o.Sizes, n)
			}
			samples, err := simulate.Sweep(o)
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range pooled(samples).Groups {
				r := replayed(t, g, 0, seed)
				shares, regrets = append(shares, r.share), append(regrets, r.regret)
			}
		}
	}
	figure(t, "simulated, share of the time, mean", mean(shares), 0.4, 0.3)
	figure(t, "simulated, regret, mean", mean(regrets), 1.006, 1.005)
	figure(t, "simulated, regret, max", slices.Max(regrets), 1.03, 1.02)
}

// What was measured is all that counts: a sweep goes on where it was.
func TestAdaptiveSweepStages(t *testing.T) {
	m := smallMachine()
	g := pooled(m.sweep(1, 1)).Groups[0]
	s := spaceOf(g)
	if n := s.Next(nil); n.Stage != StageDefault || len(n.Runs) != 1 || !n.Runs[0].Default || len(n.Runs[0].Sizes) != len(s.Sizes) {
		t.Errorf("nothing measured: %+v", n)
	}
	most := s.Channels[len(s.Channels)-1]
	all, none := func(Cell) bool { return true }, func(Cell) bool { return false }
	if n := s.Next(g.subset(none, all)); n.Stage != StageFirst || n.Channels != most || len(n.Runs) != len(s.Families) {
		t.Errorf("only the default measured: %+v", n)
	}
	missing := Config{s.Families[1], most}
	first := g.subset(func(c Cell) bool { return c.Config.Channels == most && c.Config != missing }, all)
	if n := s.Next(first); len(n.Runs) != 1 || n.Runs[0].Config != missing || len(n.Runs[0].Sizes) != len(s.Sizes) {
		t.Errorf("one run is missing: %+v", n)
	}
	s.Failed = []Config{missing}
	if n := s.Next(first); n.Stage != StageFewer || n.Channels >= most {
		t.Errorf("the missing run failed: %+v", n)
	}
	s.Failed = nil
	if n := s.Next(g); n.Stage != StageStopped && n.Stage != StageExhausted || len(n.Runs) > 0 {
		t.Errorf("all measured: %+v", n)
	}
}
