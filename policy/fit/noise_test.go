package fit

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// disturbance is a way in which a machine does not hold still, with what a sweep of it may cost at most.
type disturbance struct {
	name  string
	noise float64
	// tails is the share of times that take 30 % longer, and badStarts that of starts.
	tails, badStarts float64
	// step is the change of all times from some start on, and once that of one start.
	step, once float64

	draws float64 // what each start draws for each configuration and size

	mean, harm float64 // limits: time / best, and the share of sizes that are more than 1 % slower than the default
}

var disturbances = []disturbance{
	{name: "0.3 %", noise: 0.003, mean: 1.0029, harm: 0.01},
	{name: "1 %", noise: 0.01, mean: 1.0038, harm: 0.01},
	{name: "2 %", noise: 0.02, mean: 1.0058, harm: 0.01},
	{name: "5 %", noise: 0.05, mean: 1.0092, harm: 0.015},
	{name: "1 %, 5 % of times +30 %", noise: 0.01, tails: 0.05, mean: 1.0063, harm: 0.01},
	{name: "1 %, 5 % of starts +30 %", noise: 0.01, badStarts: 0.05, mean: 1.0038, harm: 0.01},
	{name: "1 %, one step of 10 %", noise: 0.01, step: 0.1, mean: 1.0049, harm: 0.01},
	{name: "1 %, one start +30 %", noise: 0.01, once: 0.3, mean: 1.0066, harm: 0.01},
	{name: "1 %, each start draws 1 %", noise: 0.01, draws: 0.01, mean: 1.0053, harm: 0.01},
}

// of is a machine that the disturbance meets.
func (d disturbance) of(g *Group, seed uint64) *cluster {
	rng := rand.New(rand.NewPCG(seed, 77))
	from, when := 1+rng.IntN(5), 1+rng.IntN(4)
	c := newCluster(g, d.noise, seed, nil)
	if c.tails, c.draws = d.tails, d.draws; seed%2 == 1 { // a person does not know how many channels the machine has
		c.space.Channels = append(c.space.Channels, slices.Max(c.space.Channels)+8, nccl.MaxChannels)
	}
	factors := map[int]float64{} // by start: all its sizes have the same
	c.drift = func(start, _ int) float64 {
		if factors[start] == 0 {
			factors[start] = 1
			if rng.Float64() < d.badStarts {
				factors[start] *= 1.3
			}
			if start >= from {
				factors[start] *= 1 + d.step
			}
			if start == when {
				factors[start] *= 1 + d.once
			}
		}
		return factors[start]
	}
	return c
}

// channelGrids are measured grids with several channel counts and NCCL's choice.
func channelGrids(t *testing.T) []grid {
	return slices.DeleteFunc(raceGrids(t), func(g grid) bool {
		return g.Coll == nccl.CollReduceScatter || len(g.Configs()) <= nccl.NumAlgos*nccl.NumProtos
	})
}

// What whole sweeps cost on machines that are noisy in nine ways.
func TestSweepUnderNoise(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	all := channelGrids(t)
	for _, d := range disturbances {
		var o outcome
		for _, g := range all {
			for seed := range uint64(raceSeeds) {
				o.add(t, d.of(g.Group, seed))
			}
		}
		t.Logf("%-26s %v", d.name, o)
		mean, harm, share := o.regret/o.sizes, o.harm/o.sizes, o.share/o.sweeps
		if mean > d.mean || harm > d.harm || share > 0.13 || o.starts/o.sweeps > 6 {
			t.Errorf("%s: %.4f, harm %.4f, share %.3f; must be at most %.4f, %.4f, 0.13, and 6 starts", d.name, mean,
				harm, share, d.mean, d.harm)
		}
	}
}

// More repetitions of a verification find no less: their range is larger for no other reason than their number.
func TestMoreRepetitionsFindNoLess(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	all := channelGrids(t)
	for _, noise := range []float64{0.01, 0.03} {
		before := 2.0
		for _, repetitions := range []int{1, 2, 4} {
			var o outcome
			for _, g := range all {
				for seed := range uint64(raceSeeds) {
					c := newCluster(g.Group, noise, seed, nil)
					c.space.Repetitions = repetitions
					o.add(t, c)
				}
			}
			t.Logf("noise %.0f %%, %d repetitions: %v", 100*noise, repetitions, o)
			mean := o.regret / o.sizes
			if mean > before+0.0005 || o.harm/o.sizes > 0.01 {
				t.Errorf("noise %.0f %%, %d repetitions: %.4f after %.4f, harm %.4f", 100*noise, repetitions, mean, before,
					o.harm/o.sizes)
			}
			before = mean
		}
	}
}

// tiedGrid has a family that takes about as long with any number of channels, and another one that is slower with the
// most and the fewest channels, and the fastest with two counts in between at a few sizes.
func tiedGrid() *Group {
	g := &Group{Key: Key{Coll: nccl.CollAllReduce, Comm: nccl.Comm{Nodes: 3, Ranks: 24}}, Noise: assumedNoise}
	tied := nccl.Cell{Algo: nccl.AlgoTree, Proto: nccl.ProtoSimple}
	peaked := nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL128}
	for b := uint64(4 << 10); b <= 512<<20; b *= 2 {
		us := 60 + float64(b)/100e3
		for a, p := range nccl.Cells {
			cell := nccl.Cell{Algo: a, Proto: p}
			if a > nccl.AlgoRing {
				continue
			}
			for _, n := range []int{1, 4, 8, 12, 16, 24, 32, 40, 48} {
				factor := 1.4 + 1/float64(n)
				switch inner := n == 32 || n == 40; {
				case cell == tied:
					factor = 1 + max(0, 0.3-float64(n)/20)
				case cell == peaked && inner && b >= 32<<20 && b <= 128<<20:
					factor = 0.9
				case cell == peaked && inner:
					factor = 1.03
				case cell == peaked:
					factor = 1.05 + 0.02*math.Abs(float64(n-36))/12
				}
				g.Points = append(g.Points, Point{Config: nccl.Config{Cell: cell, Channels: n}, Bytes: b,
					Micros: us * factor, Reps: 1})
			}
		}
		g.Default = append(g.Default, Point{Config: nccl.Config{Cell: tied, Channels: 48}, Bytes: b, Micros: 1.05 * us,
			Reps: 1})
	}
	slices.SortFunc(g.Points, Point.compare)
	return g
}

// A family whose counts take the same time does not keep a sweep from looking at others.
func TestRaceLeavesWhatIsTied(t *testing.T) {
	for _, d := range []disturbance{
		{name: "0.3 %", noise: 0.003, mean: 1.001}, {name: "1 %", noise: 0.01, mean: 1.001},
		{name: "5 % of times +30 %", noise: 0.003, tails: 0.05, mean: 1.003},
	} {
		var o outcome
		for seed := range uint64(raceSeeds) {
			o.add(t, d.of(tiedGrid(), seed))
		}
		t.Logf("%s: %v", d.name, o)
		if mean := o.regret / o.sizes; mean > d.mean {
			t.Errorf("%s: %.4f of the best time, must be at most %.3f", d.name, mean, d.mean)
		}
	}
}
