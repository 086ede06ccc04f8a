package lint

import (
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

const (
	// A row counts as slow if the model expects the best to be faster by slowerBy, in ln(us), and by
	// slowerSigmas standard deviations of both.
	slowerBy     = 0.05
	slowerSigmas = 2
)

// againstModel compares rows for one kind of communicator with what was measured there.
func (c *check) againstModel() {
	for i := range c.opt.Model.File.CurveSets {
		g := &c.opt.Model.File.CurveSets[i]
		view := groupView{c.opt.Model.For(g.Comm), g, g.Sizes()}
		at := keyOf(g.Key())
		for _, r := range c.rows {
			if !r.active() || r.When != nil || r.LeavesToNCCL() || !at.within(r.key.ofAnyCall()) {
				continue
			}
			if sizes, ok := r.BytesFor(g.Ranks); ok {
				c.rowAgainst(view, r, sizes)
			}
		}
	}
}

// groupView is one group of a model.
type groupView struct {
	*model.View
	group *model.CurveSet
	sizes []uint64 // measured, ascending
}

func (v groupView) candidates(bytes uint64) []model.Candidate {
	return v.Candidates(nccl.Call{Coll: v.group.Key().Coll, Bytes: bytes}, nccl.Everything())
}

// fastest returns the least time expected among configurations; ok is false where none of them is
// known at that size.
func (v groupView) fastest(bytes uint64, is func(nccl.Config) bool) (best model.Time, ok bool) {
	for _, c := range v.candidates(bytes) {
		if is(c.Config) && !c.Unknown() && (!ok || c.LnMicros < best.LnMicros) {
			best, ok = c.Time, true
		}
	}
	return best, ok
}

// rowAgainst compares one row at the sizes that the model holds.
func (c *check) rowAgainst(v groupView, r *row, sizes nccl.Range) {
	any := func(nccl.Config) bool { return true }
	asked := func(c nccl.Config) bool {
		return r.Cells.Contains(c.Cell) && (r.Channels == 0 || c.Channels == int(r.Channels))
	}
	within := false
	slowest, at, times := 0.0, uint64(0), [2]float64{}
	for _, bytes := range v.sizes {
		if bytes < sizes.Min || bytes > sizes.Max {
			continue
		}
		within = true
		chosen, ok := v.fastest(bytes, asked)
		if !ok {
			continue
		}
		best, _ := v.fastest(bytes, any)
		loss := chosen.LnMicros - best.LnMicros
		if loss > max(slowerBy, slowerSigmas*math.Hypot(chosen.Sigma, best.Sigma)) && loss > slowest {
			slowest, at, times = loss, bytes, [2]float64{chosen.Micros(), best.Micros()}
		}
	}
	switch {
	case slowest > 0:
		c.report(modelDisagrees, r.Line, "",
			"%s: at %s the model expects %.4g us of the row's choice, and %.4g us of the fastest", groupName(v.group),
			nccl.FormatBytes(at), times[0], times[1])
	case within && !slices.ContainsFunc(v.group.Curves, func(f model.Curve) bool { return asked(f.Config()) }):
		c.report(modelChannelsUnseen, r.Line, "", "%s: what the row asks for was not measured", groupName(v.group))
	}
}
