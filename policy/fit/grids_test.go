package fit

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// grid is what was measured of one communicator, whole.
type grid struct {
	name string
	*Group
}

// grids are full measured grids with NCCL's choice.
func grids(t testing.TB) []grid {
	t.Helper()
	return readGrids(t, map[string][]string{
		"../../docs/measured/mi355x-allreduce.csv": {"8 MI355X", "2x8 MI355X"},
		"../../docs/measured/a6000-allreduce.csv":  {"2 A6000", "4 A6000"},
		"../../docs/measured/mi355x-broadcast.csv": {"3x8 MI355X broadcast"},
	})
}

// reduceScatters lack NCCL's choice. On two nodes several configurations share times: RCCL took another path.
func reduceScatters(t testing.TB) []grid {
	t.Helper()
	return readGrids(t, map[string][]string{
		"../../docs/measured/mi355x-reducescatter.csv": {"8 MI355X", "2x8 MI355X"},
	})
}

func readGrids(t testing.TB, files map[string][]string) (all []grid) {
	t.Helper()
	for file, names := range files {
		r, err := testlib.Measurements(file)
		if err != nil {
			t.Fatal(err)
		}
		p := NewPool()
		for i := range r.Samples {
			p.Add(&r.Samples[i])
		}
		found := p.Set().Groups
		if len(found) != len(names) {
			t.Fatalf("%s: %d groups, want %d", file, len(found), len(names))
		}
		for i, name := range names {
			all = append(all, grid{name, found[i]})
		}
	}
	slices.SortFunc(all, func(a, b grid) int { return a.Compare(b.Key) })
	return all
}

// time is what a choice takes; NaN where that was not measured. NCCL's own channels are the best ones.
func (g grid) time(c nccl.Config, bytes uint64) float64 { return g.timeOf(c, bytes) }

// best is the least time measured at a size, NCCL's choice among them.
func (g grid) best(bytes uint64) float64 {
	d, _ := g.defaultAt(bytes)
	best := d.Micros
	for _, c := range g.Points {
		if c.Bytes == bytes {
			best = min(best, c.Micros)
		}
	}
	return best
}

// split is a way to learn from a part of what was measured, and to be asked about the whole.
type split struct {
	name  string
	folds func(g *Group) []fold
}

const seeds = 20

var splits = []split{
	{"every other size", foldsBySize},
	{"half of the points", somePoints(0.5)},
	{"a quarter", somePoints(0.25)},
	{"all, 1 % noise", func(g *Group) []fold {
		return repeated(g, func(rng *rand.Rand) *Group { return noisy(g, 0.01, rng) })
	}},
}

func repeated(g *Group, part func(*rand.Rand) *Group) (folds []fold) {
	for seed := range uint64(seeds) {
		folds = append(folds, fold{part(rand.New(rand.NewPCG(seed, 12))), sizesOf(g.Default)})
	}
	return folds
}

func somePoints(share float64) func(*Group) []fold {
	return func(g *Group) []fold {
		return repeated(g, func(rng *rand.Rand) *Group { return scatter(g, share, rng) })
	}
}

// scatter keeps each point with a probability.
func scatter(g *Group, share float64, rng *rand.Rand) *Group {
	return g.subset(func(Point) bool { return rng.Float64() < share }, func(Point) bool { return true })
}

// noisy is the group measured again.
func noisy(g *Group, sigma float64, rng *rand.Rand) *Group {
	all := func(Point) bool { return true }
	s := g.subset(all, all)
	for _, points := range [][]Point{s.Points, s.Default} {
		for i := range points {
			points[i].Micros *= math.Exp(sigma * rng.NormFloat64())
		}
	}
	return s
}

// withDefault gives a grid without a default one that changes like NCCL's: LL for small
// sizes, LL128 or LL between, Simple for large ones, channels growing with the size.
func withDefault(g *Group, algo nccl.Algo) *Group {
	all := func(Point) bool { return true }
	s := g.subset(all, all)
	bySize := g.bySize()
	for _, b := range g.Sizes() {
		protos := []nccl.Proto{nccl.ProtoSimple}
		switch {
		case b <= 128<<10:
			protos = []nccl.Proto{nccl.ProtoLL, nccl.ProtoSimple}
		case b <= 4<<20:
			protos = []nccl.Proto{nccl.ProtoLL128, nccl.ProtoLL, nccl.ProtoSimple}
		}
		most := int(min(b>>14, nccl.MaxChannels))
		found := Point{}
		for _, proto := range protos {
			for _, c := range bySize[b] {
				if c.Config.Algo == algo && c.Config.Proto == proto && (found.Bytes == 0 || c.Config.Channels <= most) {
					found = c
				}
			}
			if found.Bytes > 0 {
				break
			}
		}
		s.Default = append(s.Default, found)
	}
	return s
}

// figure prints a measured number beside what it must and what it should be, and fails where it is not what it must be.
func figure(t *testing.T, what string, got, must, aim float64) {
	t.Helper()
	verdict := "reached"
	switch {
	case !(got <= must):
		verdict = "MISSED"
	case !(got <= aim):
		verdict = "short of the aim"
	}
	t.Logf("%-44s %7.4f   must %.4g   aim %.4g   %s", what, got, must, aim, verdict)
	if verdict == "MISSED" {
		t.Errorf("%s is %.4f, must be at most %g", what, got, must)
	}
}
