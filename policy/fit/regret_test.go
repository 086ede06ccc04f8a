package fit

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// chooser decides for a size; ok is false where it leaves that to NCCL.
type chooser func(bytes uint64) (c nccl.Config, ok bool)

// way is a way to decide, learnt from a part of a grid; of the whole it may only ask what NCCL offers and chooses.
type way struct {
	name  string
	learn func(train *Group, whole grid) chooser
}

var (
	byPolicy = way{"policy file", func(train *Group, _ grid) chooser { return rowsChoice(train) }}
	byModel  = way{"model", func(train *Group, whole grid) chooser {
		view := compile(train).For(train.Comm)
		points := whole.bySize()
		return func(bytes uint64) (nccl.Config, bool) {
			c, why := view.Choose(nccl.Call{Coll: train.Coll, Bytes: bytes}, costsAt(whole.Group, points[bytes], bytes))
			return c.Config, why == model.Decides
		}
	}}
	baselines = []way{
		{"NCCL's choice", func(*Group, grid) chooser {
			return func(uint64) (nccl.Config, bool) {
				return nccl.Config{}, false
			}
		}},
		{"the winner at the nearest size", func(train *Group, _ grid) chooser { return nearestChoice(train) }},
		{"straight lines, gains above 1 %", func(train *Group, _ grid) chooser { return linesChoice(train) }},
	}
	// without are policy files that are made without one of the parts.
	without = []way{
		{"without the labels of NCCL's choice", func(train *Group, _ grid) chooser {
			all := func(Point) bool { return true }
			train = train.subset(all, all)
			for i := range train.Default {
				train.Default[i].Config = unknownConfig
			}
			return rowsChoice(train)
		}},
		{"without doubt (gains above 1 %)", func(train *Group, _ grid) chooser {
			view := compile(train).For(train.Comm)
			return func(bytes uint64) (nccl.Config, bool) {
				c, why := view.Choose(nccl.Call{Coll: train.Coll, Bytes: bytes}, everything)
				return c.Config, (why == model.Decides || why == model.AbstainGain) && c.Gain() > 0.01
			}
		}},
		{"without merging rows (the model alone)", func(train *Group, _ grid) chooser {
			view := compile(train).For(train.Comm)
			return func(bytes uint64) (nccl.Config, bool) {
				c, why := view.Choose(nccl.Call{Coll: train.Coll, Bytes: bytes}, everything)
				return c.Config, why == model.Decides
			}
		}},
	}
)

func rowsChoice(train *Group) chooser {
	rows := Rows(compile(train))
	return func(bytes uint64) (nccl.Config, bool) {
		i := slices.IndexFunc(rows, func(r Row) bool { return r.Bytes.Contains(bytes) })
		if i < 0 {
			return nccl.Config{}, false
		}
		return rows[i].Config, true
	}
}

// nearestChoice is the winner at the measured size with the nearest logarithm, the larger of two.
func nearestChoice(g *Group) chooser {
	sizes, fastest := g.Sizes(), g.winners()
	return func(bytes uint64) (nccl.Config, bool) {
		if len(sizes) == 0 {
			return nccl.Config{}, false
		}
		i, exact := slices.BinarySearch(sizes, bytes)
		if i == len(sizes) || !exact && i > 0 && log2(bytes)-log2(sizes[i-1]) < log2(sizes[i])-log2(bytes) {
			i--
		}
		return fastest[i].Config, true
	}
}

// linesChoice joins what was measured of each configuration, and of the default, by straight lines.
func linesChoice(g *Group) chooser {
	return func(bytes uint64) (best nccl.Config, ok bool) {
		least := math.Inf(1)
		for _, c := range g.Configs() {
			if us := between(g.pointsOf(c), bytes); us < least {
				best, least = c, us
			}
		}
		return best, between(g.Default, bytes) > 1.01*least
	}
}

// regrets of a way to decide: time / best measured, and how often that is more than 1 % slower than the default.
type regrets struct {
	n, harm    int
	sum, worst float64
}

func (r regrets) mean() float64 { return r.sum / float64(r.n) }

func (r regrets) harmed() float64 { return float64(r.harm) / float64(r.n) }

func (r *regrets) add(choose chooser, g grid, sizes []uint64) {
	for _, b := range sizes {
		d, ok := g.defaultAt(b)
		if !ok {
			continue
		}
		taken := d.Micros
		if c, ok := choose(b); ok {
			if us := g.time(c, b); !math.IsNaN(us) {
				taken = us
			}
		}
		if taken > harmful*d.Micros {
			r.harm++
		}
		r.n++
		r.sum += taken / g.best(b)
		r.worst = max(r.worst, taken/g.best(b))
	}
}

func judge(w way, s split, all []grid) (r regrets) {
	for _, g := range all {
		for _, f := range s.folds(g.Group) {
			r.add(w.learn(f.train, g), g, f.sizes)
		}
	}
	return r
}

// limits of a way to decide, by split: mean of time / best measured, and the share of decisions that take more than 1 %
// longer than NCCL's choice.
type limits []struct{ mean, harm float64 }

// What a model learnt from a part of a grid costs over the whole of it. With -v, what others do is printed beside it.
// What its policy costs is tested through the commands, in cmd/tunefit/internal/endtoend.
func TestRegret(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	all := grids(t)
	must := limits{{1.0127, 0.025}, {1.0096, 0.005}, {1.0385, 0.010}, {1.0017, 0.002}}
	for _, w := range append(slices.Clone(baselines), byModel) {
		line := "| " + w.name + " |"
		for i, s := range splits {
			r := judge(w, s, all)
			line += fmt.Sprintf(" %.4f, %.1f %%, %.2f |", r.mean(), 100*r.harmed(), r.worst)
			if l := must[i]; w.name == byModel.name && (r.mean() > l.mean || r.harmed() > l.harm) {
				t.Errorf("%s, %s: %.4f, harm %.4f; must be at most %.4f, %.4f", w.name, s.name, r.mean(), r.harmed(),
					l.mean, l.harm)
			}
		}
		t.Log(line)
	}
}

// What the parts are worth: docs/dev/MODEL.md has the essence, with -v all.
func TestAblation(t *testing.T) {
	if testing.Short() || !testing.Verbose() {
		t.Skip("SKIPPED: prints a table, with -v")
	}
	all := grids(t)
	for _, w := range append([]way{byPolicy}, without...) {
		line := "| " + w.name + " |"
		for _, s := range splits {
			r := judge(w, s, all)
			line += fmt.Sprintf(" %.4f, %.1f %% |", r.mean(), 100*r.harmed())
		}
		t.Log(line)
	}
}
