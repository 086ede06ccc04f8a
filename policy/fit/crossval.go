package fit

import (
	"fmt"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

const (
	// LeftOutSizes is the trial that tells of what a model is for: sizes in between.
	LeftOutSizes    = "every other size"
	leftOutChannels = "one channel count"
	// LeftOutNodes is a trial of answering for more nodes, not of the group's own decisions.
	LeftOutNodes = "the largest node count"
)

// fold is one way to part a group: a model is fitted to train and decides for
// sizes that were measured in truth.
type fold struct {
	train *Group
	sizes []uint64
}

// compileFor fits a group that is going to be asked about some sizes only, and compiles it as a
// tuner would.
func compileFor(maxNodes int, g *Group, sizes []uint64) *model.Model {
	measured := g.allSizes()
	least, most := measured[0], measured[len(measured)-1]
	axis := []uint64{least, most}
	for _, b := range append(spread(measured), sizes...) {
		if least < b && b < most {
			axis = append(axis, b)
		}
	}
	slices.Sort(axis)
	return compiled(maxNodes, compileGroup(g, slices.Compact(axis)))
}

func compiled(maxNodes int, groups ...model.Group) *model.Model {
	file := &model.File{Format: model.Format, Version: model.Version, MaxNodes: maxNodes, Groups: groups}
	m, err := model.Compile("model", file)
	if err != nil {
		panic(fmt.Sprintf("fit: a fitted model does not compile: %v", err))
	}
	return m
}

// validate fits each fold and sums up the decisions of the policy file made of it.
func validate(leftOut string, truth *Group, folds []fold) Verdict {
	var outcomes []Outcome
	times := map[string][]float64{}
	var off []float64
	inside := 0
	for _, f := range folds {
		m := compileFor(0, f.train, f.sizes)
		view := m.For(truth.Nodes, truth.Ranks)
		asked := decide(view, truth, f.sizes)
		byRows := truth.decideByRows(Rows(m, RowOptions{}), f.sizes)
		for i := range byRows {
			byRows[i].Plain = asked[i].Plain
		}
		outcomes = append(outcomes, byRows...)
		for name, learn := range baselines {
			times[name] = append(times[name], learn(f.train).times(truth, f.sizes)...)
		}
		var left []Cell
		for _, c := range truth.Cells {
			if !slices.Contains(f.sizes, c.Bytes) {
				continue
			}
			if _, seen := f.train.at(c.Config, c.Bytes); !seen {
				left = append(left, c)
			}
		}
		o, n := compare(view, truth, left)
		off, inside = append(off, o...), inside+n
	}
	v := newVerdict(leftOut, outcomes, times)
	v.Predicted, v.Inside = len(off), inside
	if len(off) > 0 {
		v.TypicalError = median(off)
	}
	return v
}

// mostValidatedCells bounds the cells of a group that are validated, but for what
// one size has.
const mostValidatedCells = 50_000

// fewerSizes leaves out whole sizes, evenly, where a group has more cells than
// are validated.
func (g *Group) fewerSizes() *Group {
	step := (len(g.Cells) + mostValidatedCells - 1) / mostValidatedCells
	if step <= 1 {
		return g
	}
	kept := map[uint64]bool{}
	for i, b := range g.Sizes() {
		if i%step == 0 {
			kept[b] = true
		}
	}
	keep := func(c Cell) bool { return kept[c.Bytes] }
	return g.subset(keep, keep)
}

// mostTested bounds the sizes that a fold decides for.
const mostTested = 40

// spread picks at most mostTested of ascending sizes, spread evenly over octaves.
func spread(sizes []uint64) []uint64 {
	if len(sizes) <= mostTested {
		return sizes
	}
	var picked []uint64
	from := log2(sizes[0])
	step := (log2(sizes[len(sizes)-1]) - from) / (mostTested - 1)
	for _, b := range sizes {
		if log2(b) >= from+float64(len(picked))*step-1e-9 {
			picked = append(picked, b)
		}
	}
	return picked
}

// foldsBySize leaves out every other size, once the odd and once the even ones,
// and decides for those between two that are left. The default is left out, too.
func foldsBySize(g *Group) []fold {
	sizes := g.Sizes()
	if len(sizes) < 5 {
		return nil
	}
	var folds []fold
	for parity := range 2 {
		kept := map[uint64]bool{}
		var test []uint64
		for i, b := range sizes {
			if i%2 == parity {
				kept[b] = true
			} else if i > 0 && i+1 < len(sizes) {
				test = append(test, b)
			}
		}
		keep := func(c Cell) bool { return kept[c.Bytes] }
		folds = append(folds, fold{g.subset(keep, keep), spread(test)})
	}
	return folds
}

// mostChannelFolds bounds the work; channel counts left out are spread evenly.
const mostChannelFolds = 6

// foldsByChannels leaves out one channel count of all algorithms and protocols.
// The best of what is left is compared with the best of all.
func foldsByChannels(g *Group) []fold {
	var channels []int
	for _, c := range g.Configs() {
		if c.Channels > 0 && !slices.Contains(channels, c.Channels) {
			channels = append(channels, c.Channels)
		}
	}
	slices.Sort(channels)
	if len(channels) < 3 {
		return nil
	}
	n, test := min(len(channels), mostChannelFolds), spread(g.Sizes())
	var folds []fold
	for k := range n {
		out := channels[k*(len(channels)-1)/(n-1)]
		train := g.subset(func(c Cell) bool { return c.Config.Channels != out }, func(Cell) bool { return true })
		folds = append(folds, fold{train, test})
	}
	return folds
}

// validateNodes asks the groups of fewer nodes, but several, about a group as if
// it had not been measured. ok is false where there are none.
func validateNodes(groups []*Group, g *Group) (v Verdict, ok bool) {
	var fewer *Group // the largest: the one that answers for more
	for _, o := range groups {
		if o.Coll == g.Coll && o.Nodes > 1 && o.Nodes < g.Nodes && o.Ranks*g.Nodes == g.Ranks*o.Nodes && len(o.Cells) > 0 {
			fewer = o // groups are ordered by nodes
		}
	}
	if fewer == nil || len(g.Cells) == 0 {
		return v, false
	}
	sizes := spread(g.Sizes())
	view := compileFor(g.Nodes, fewer, sizes).For(g.Nodes, g.Ranks)
	return newVerdict(LeftOutNodes, decide(view, g, sizes), nil), true
}
