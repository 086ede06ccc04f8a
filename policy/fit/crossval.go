package fit

import (
	"fmt"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

const (
	leftOutSizes    = "every other size"
	leftOutChannels = "one channel count"
	leftOutNodes    = "the largest node count"
)

// fold is one way to part a group: a model is fitted to train and decides for
// sizes that were measured in truth.
type fold struct {
	train *Group
	sizes []uint64
}

// compile fits groups and compiles them as a tuner would.
func compile(maxNodes int, groups ...*Group) *policy.Model {
	var all []policy.ModelGroup
	for _, g := range groups {
		all = append(all, compileGroup(g, axisOf(g)))
	}
	return compiled(maxNodes, all...)
}

// compileFor is compile for a group that is going to be asked about some sizes
// only.
func compileFor(g *Group, sizes []uint64) *policy.Model {
	axis := sizesOf(append(slices.Clone(g.Cells), g.Default...))
	least, most := axis[0], axis[len(axis)-1]
	for _, b := range sizes {
		if least < b && b < most {
			axis = append(axis, b)
		}
	}
	slices.Sort(axis)
	return compiled(0, compileGroup(g, slices.Compact(axis)))
}

func compiled(maxNodes int, groups ...policy.ModelGroup) *policy.Model {
	file := &policy.ModelFile{Format: policy.ModelFormat, Version: policy.ModelVersion, MaxNodes: maxNodes, Groups: groups}
	m, err := policy.CompileModel("model", file)
	if err != nil {
		panic(fmt.Sprintf("fit: a fitted model does not compile: %v", err))
	}
	return m
}

// validate fits each fold and sums up all decisions.
func validate(leftOut string, truth *Group, folds []fold) Verdict {
	var outcomes []Outcome
	times := map[string][]float64{}
	var off []float64
	inside := 0
	for _, f := range folds {
		view := compileFor(f.train, f.sizes).For(truth.Nodes, truth.Ranks)
		outcomes = append(outcomes, decide(view, truth, f.sizes)...)
		for name, choose := range baselines {
			times[name] = append(times[name], baselineTimes(choose, f.train, truth, f.sizes)...)
		}
		var left []Cell
		for _, c := range truth.Cells {
			if _, seen := f.train.at(c.Config, c.Bytes); !seen && slices.Contains(f.sizes, c.Bytes) {
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
		folds = append(folds, fold{g.subset(keep, keep), test})
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
	n := min(len(channels), mostChannelFolds)
	var folds []fold
	for k := range n {
		out := channels[k*(len(channels)-1)/(n-1)]
		train := g.subset(func(c Cell) bool { return c.Config.Channels != out }, func(Cell) bool { return true })
		folds = append(folds, fold{train, g.Sizes()})
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
	view := compile(g.Nodes, fewer).For(g.Nodes, g.Ranks)
	return newVerdict(leftOutNodes, decide(view, g, g.Sizes()), nil), true
}
