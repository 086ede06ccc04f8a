package fit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// way is a way to decide, learnt from a group: the configuration for a size; ok is false
// where it leaves the size to NCCL. truth tells what NCCL offers and chooses there, and
// nothing else may be asked of it.
type way struct {
	name  string
	learn func(train, truth *Group) chooser
}

var ways = []way{
	{"default", func(_, _ *Group) chooser { return func(uint64) (Config, bool) { return Config{}, false } }},
	{"policy file", func(train, _ *Group) chooser { return rowsChoice(train) }},
	{"model", modelChoice},
	{"log-log, 1 %", func(train, _ *Group) chooser { return onePercent(train, logLogCurves(train)) }},
	{"joint mean, 1 %", func(train, _ *Group) chooser { return onePercent(train, jointCurves(train)) }},
	{"mean of both, 1 %", func(train, _ *Group) chooser { return onePercent(train, meanCurves(train)) }},
}

func rowsChoice(train *Group) chooser {
	rows := Rows(compile(0, train), RowOptions{})
	return func(bytes uint64) (Config, bool) {
		for _, r := range rows {
			if r.Bytes.Contains(bytes) {
				return r.Config, true
			}
		}
		return Config{}, false
	}
}

func modelChoice(train, truth *Group) chooser {
	view := compile(0, train).For(train.Nodes, train.Ranks)
	cells := truth.bySize()
	return func(bytes uint64) (Config, bool) {
		c, why := view.Choose(train.Coll, bytes, costsAt(truth, cells[bytes], bytes))
		return Config{FamilyKey{c.Algo, c.Proto}, c.Channels}, why == model.Speaks
	}
}

type curve struct {
	config Config
	at     func(bytes uint64) float64 // ln(us); NaN where not known
}

func logLogCurves(g *Group) (all []curve) {
	for _, c := range g.Configs() {
		cells := g.cellsOf(c)
		line := newPolyline(cells)
		all = append(all, curve{c, func(bytes uint64) float64 {
			if bytes < cells[0].Bytes || bytes > cells[len(cells)-1].Bytes {
				return math.NaN()
			}
			v, _ := line.at(log2(bytes))
			return v
		}})
	}
	return all
}

func jointCurves(g *Group) (all []curve) {
	var shared layouts
	for _, cells := range g.families() {
		f := g.fitFamily(cells, &shared)
		for _, channels := range f.channels {
			c := Config{cells[0].Config.FamilyKey, channels}
			own := f.measured(channels)
			all = append(all, curve{c, func(bytes uint64) float64 {
				if !own.Contains(bytes) {
					return math.NaN()
				}
				m, _ := f.predict(channels, []uint64{bytes})
				return m[0]
			}})
		}
	}
	return all
}

func meanCurves(g *Group) (all []curve) {
	a, b := logLogCurves(g), jointCurves(g)
	for i := range a {
		all = append(all, curve{a[i].config, func(bytes uint64) float64 { return (a[i].at(bytes) + b[i].at(bytes)) / 2 }})
	}
	return all
}

// onePercent takes the least of the curves where that is 1 % below the line through the
// measured defaults.
func onePercent(g *Group, curves []curve) chooser {
	def := newPolyline(g.Default)
	return func(bytes uint64) (Config, bool) {
		if bytes < g.Default[0].Bytes || bytes > g.Default[len(g.Default)-1].Bytes {
			return Config{}, false
		}
		best, least := Config{}, math.Inf(1)
		for _, c := range curves {
			if v := c.at(bytes); v < least {
				best, least = c.config, v
			}
		}
		d, _ := def.at(log2(bytes))
		return best, d-least > 0.01
	}
}

// split is one way to learn from a part of what was measured.
type split struct {
	name  string
	folds func(g *Group) []fold
}

const ablationSeeds = 10

func someCells(share float64) func(*Group) []fold {
	return func(g *Group) (folds []fold) {
		for seed := range uint64(ablationSeeds) {
			folds = append(folds, fold{scatter(g, share, 500+seed), g.Sizes()})
		}
		return folds
	}
}

var splits = []split{
	{"every other size", foldsBySize},
	{"half of the cells", someCells(0.5)},
	{"a quarter of them", someCells(0.25)},
	{"all, 1 % noise", func(g *Group) (folds []fold) {
		for seed := range uint64(ablationSeeds) {
			folds = append(folds, fold{noisy(g, 0.01, seed), g.Sizes()})
		}
		return folds
	}},
}

// noisy is the group measured again.
func noisy(g *Group, sigma float64, seed uint64) *Group {
	rng := rand.New(rand.NewPCG(seed, 12))
	all := func(Cell) bool { return true }
	s := g.subset(all, all)
	for _, cells := range [][]Cell{s.Cells, s.Default} {
		for i := range cells {
			cells[i].Micros *= math.Exp(sigma * rng.NormFloat64())
		}
	}
	return s
}

// regrets of a way to decide, and how often it harms.
type regrets struct {
	n, spoke, harm int
	sum, most      float64
	worst          float64 // decision / default
}

func (r *regrets) add(choose chooser, truth *Group, sizes []uint64, by map[uint64][]Cell) {
	for _, b := range sizes {
		d, ok := truth.defaultAt(b)
		if !ok {
			continue
		}
		best, taken := d.Micros, d.Micros
		for _, c := range by[b] {
			best = min(best, c.Micros)
		}
		if c, ok := choose(b); ok {
			r.spoke++
			if cell, ok := truth.at(c, b); ok {
				taken = cell.Micros
			} else {
				continue // was not measured: nobody can tell
			}
			if taken > harmful*d.Micros {
				r.harm++
			}
			r.worst = max(r.worst, taken/d.Micros)
		}
		r.n++
		r.sum += taken / best
		r.most = max(r.most, taken/best)
	}
}

func (r regrets) String() string {
	return fmt.Sprintf("%.4f h%4.1f%% w%.2f", r.sum/float64(r.n), 100*float64(r.harm)/float64(max(r.spoke, 1)), r.worst)
}

// withDefault gives a grid without a default one that changes like NCCL's: LL for small
// sizes, LL128 or LL between, Simple for large ones, channels growing with the size.
func withDefault(g *Group, algo nccl.Algo) *Group {
	all := func(Cell) bool { return true }
	s := g.subset(all, all)
	s.Twins = g.Twins
	for _, b := range g.Sizes() {
		want := Config{FamilyKey{algo, nccl.ProtoSimple}, 1}
		switch {
		case b <= 128<<10:
			want.Proto = nccl.ProtoLL
		case b <= 4<<20:
			want.Proto = nccl.ProtoLL128
		}
		most := int(min(b>>14, 64))
		found := Cell{}
		for _, proto := range []nccl.Proto{want.Proto, nccl.ProtoLL, nccl.ProtoSimple} {
			for _, c := range g.bySize()[b] {
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

func ablationSets(t testing.TB) (names []string, sets map[string]*Group) {
	sets = realGrids(t)
	sets["RS1"] = withDefault(sets["RS1"], nccl.AlgoRing)
	sets["RS2"] = withDefault(sets["RS2"], nccl.AlgoRing)
	return gridNames, sets
}

func TestAblation(t *testing.T) {
	names, sets := ablationSets(t)
	for _, s := range splits {
		for _, w := range ways {
			line := ""
			var all, ar regrets
			for _, name := range names {
				g := sets[name]
				var r regrets
				by := g.bySize()
				for _, f := range s.folds(g) {
					choose := w.learn(f.train, g)
					r.add(choose, g, f.sizes, by)
					all.add(choose, g, f.sizes, by)
					if name[0] == 'A' {
						ar.add(choose, g, f.sizes, by)
					}
				}
				line += fmt.Sprintf("  %s %v", name, r)
			}
			t.Logf("%-18s %-18s AR %v ALL %v |%s", s.name, w.name, ar, all, line)
		}
	}
}
