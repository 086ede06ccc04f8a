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
	{"NCCL's own choice", func(_, _ *Group) chooser { return func(uint64) (Config, bool) { return Config{}, false } }},
	{"lines, 1 %", func(train, _ *Group) chooser { return onePercent(train, logLogCurves(train)) }},
	{"the model's times, 1 %", func(train, _ *Group) chooser { return onePercent(train, fittedCurves(train)) }},
	{"model", modelChoice},
	{"policy file", func(train, _ *Group) chooser { return rowsChoice(train) }},
	{"- family", without(func(g *Group) { g.plain = true })},
	{"- labels of the default", without(func(g *Group) {
		for i := range g.Default {
			g.Default[i].Config = unknownConfig
		}
	})},
	{"- noise by size", without(func(g *Group) { g.noises = nil })},
	{"- doubt about labels", without(func(g *Group) { g.Twins = nil })},
	{"- doubt about outliers", without(func(g *Group) {
		for _, cells := range [][]Cell{g.Cells, g.Default} {
			for i := range cells {
				cells[i].Outlier = false
			}
		}
	})},
}

// without is a policy file that is made without one of the parts.
func without(part func(*Group)) func(train, _ *Group) chooser {
	return func(train, _ *Group) chooser {
		all := func(Cell) bool { return true }
		train = train.subset(all, all)
		part(train)
		return rowsChoice(train)
	}
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
		return Config{FamilyKey{c.Algo, c.Proto}, c.Channels}, why == model.Decides
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

func fittedCurves(g *Group) (all []curve) {
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
	// must and mostHarm bound what a policy file may take on the sweeps whose default
	// was measured: the mean, and the share of harmful decisions.
	must, mostHarm float64
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
	{"every other size", foldsBySize, 1.0135, 0.02},
	{"half of the cells", someCells(0.5), 1.008, 0.02},
	{"a quarter of them", someCells(0.25), 1.014, 0.02},
	{"all, with 1 % noise", func(g *Group) (folds []fold) {
		for seed := range uint64(ablationSeeds) {
			folds = append(folds, fold{noisy(g, 0.01, seed), g.Sizes()})
		}
		return folds
	}, 1.0026, 0.02},
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

// regrets of a way to decide: time / best measured, and how many decisions are slower
// than the default.
type regrets struct {
	n, harm int
	sum     float64
	worst   float64 // decision / default
}

func (r *regrets) add(choose chooser, truth *Group, f fold, by map[uint64][]Cell) {
	for _, b := range f.sizes {
		d, ok := truth.defaultAt(b)
		if !ok {
			continue
		}
		best, taken := d.Micros, d.Micros
		for _, c := range by[b] {
			best = min(best, c.Micros)
		}
		if c, ok := choose(b); ok && !truth.isDefault(c, b) {
			cell, ok := truth.at(c, b)
			if !ok {
				continue // was not measured: nobody can tell
			}
			taken = cell.Micros
			if taken > harmful*d.Micros {
				r.harm++
			}
			r.worst = max(r.worst, taken/d.Micros)
		}
		r.n++
		r.sum += taken / best
	}
}

func (r regrets) mean() float64 { return r.sum / float64(r.n) }

func (r regrets) harmed() float64 { return float64(r.harm) / float64(r.n) }

// withDefault gives a grid without a default one that changes like NCCL's: LL for small
// sizes, LL128 or LL between, Simple for large ones, channels growing with the size.
func withDefault(g *Group, algo nccl.Algo) *Group {
	all := func(Cell) bool { return true }
	s := g.subset(all, all)
	for _, b := range g.Sizes() {
		protos := []nccl.Proto{nccl.ProtoSimple}
		switch {
		case b <= 128<<10:
			protos = []nccl.Proto{nccl.ProtoLL, nccl.ProtoSimple}
		case b <= 4<<20:
			protos = []nccl.Proto{nccl.ProtoLL128, nccl.ProtoLL, nccl.ProtoSimple}
		}
		most := int(min(b>>14, nccl.MaxChannels))
		found := Cell{}
		for _, proto := range protos {
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

// TestAblation holds the policy file to its figures. With -v it prints the table of
// docs/MODEL.md: ways to decide, and the product's without one of its parts each.
func TestAblation(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	sets, names := realGrids(t)
	for _, name := range names {
		if name[0] != 'A' {
			sets[name] = withDefault(sets[name], nccl.AlgoRing)
		}
	}
	for _, w := range ways {
		if w.name != "policy file" && !testing.Verbose() {
			continue
		}
		line := "| " + w.name + " |"
		for _, s := range splits {
			var measured, made regrets // with a measured default, with one made up
			for _, name := range names {
				g, r := sets[name], &made
				if name[0] == 'A' {
					r = &measured
				}
				by := g.bySize()
				for _, f := range s.folds(g) {
					r.add(w.learn(f.train, g), g, f, by)
				}
			}
			line += fmt.Sprintf(" %.4f, %.1f %%, %.2f | %.4f, %.1f %% |", measured.mean(), 100*measured.harmed(), measured.worst, made.mean(), 100*made.harmed())
			if w.name == "policy file" && (measured.mean() > s.must || measured.harmed() > s.mostHarm) {
				t.Errorf("%s: %.4f, harm %.3f; must be %.4f, %.3f", s.name, measured.mean(), measured.harmed(), s.must, s.mostHarm)
			}
		}
		t.Log(line)
	}
}
