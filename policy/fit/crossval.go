package fit

import (
	"fmt"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// fold is one way to part a group: a model is fitted to train and decides for
// sizes that were measured in truth.
type fold struct {
	train *Group
	sizes []uint64
}

// compile makes models of groups, and compiles them as a tuner would.
func compile(maxNodes int, groups ...*Group) *model.Model {
	file := &model.File{Format: model.Format, Version: model.Version, MaxNodes: maxNodes}
	for _, g := range groups {
		file.CurveSets = append(file.CurveSets, modelOf(g))
	}
	m, err := model.Compile("model", file)
	if err != nil {
		panic(fmt.Sprintf("fit: a fitted model does not compile: %v", err))
	}
	return m
}

// validate fits each fold and sums up the decisions of the policy file made of it, at sizes left out of the fit.
func validate(truth *Group, folds []fold) Validation {
	var outcomes []SizeOutcome
	var off []float64
	inside := 0
	for _, f := range folds {
		m := compile(0, f.train)
		view := m.For(truth.Comm)
		asked := decide(view, truth, f.sizes)
		byRows := truth.decideBy(DecideByRows(Rows(m)), f.sizes)
		for i := range byRows {
			byRows[i].Plain = asked[i].Plain
		}
		outcomes = append(outcomes, byRows...)
		var left []Point
		for _, c := range truth.Points {
			if _, seen := f.train.at(c.Config, c.Bytes); !seen && slices.Contains(f.sizes, c.Bytes) {
				left = append(left, c)
			}
		}
		o, n := compare(view, truth, left)
		off, inside = append(off, o...), inside+n
	}
	return newValidation(model.LeftOutSizes, outcomes, off, inside)
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
		keep := func(c Point) bool { return kept[c.Bytes] }
		folds = append(folds, fold{g.subset(keep, keep), test})
	}
	return folds
}

// validateNodes asks the groups of fewer nodes, but several, about a group as if
// it had not been measured. ok is false where there are none.
func validateNodes(groups []*Group, g *Group) (v Validation, ok bool) {
	var fewer *Group // the largest: the one that answers for more
	for _, o := range groups {
		if o.Coll == g.Coll && o.Nodes > 1 && o.Nodes < g.Nodes && o.Ranks*g.Nodes == g.Ranks*o.Nodes &&
			len(o.Points) > 0 {
			fewer = o // groups are ordered by nodes
		}
	}
	if fewer == nil || len(g.Points) == 0 {
		return v, false
	}
	view := compile(g.Nodes, fewer).For(g.Comm)
	return newValidation(model.LeftOutNodes, decide(view, g, g.Sizes()), nil, 0), true
}
