package lint

import (
	"cmp"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

const (
	// A row is held to be slow if the model expects the best to be that much faster, in ln(us), and
	// by so many standard deviations of both.
	slowerBy     = 0.05
	slowerSigmas = 2
)

// againstModel compares rows for one kind of communicator with what was measured there.
func (c *check) againstModel() {
	for i := range c.opt.Model.File.Groups {
		g := &c.opt.Model.File.Groups[i]
		coll, err := nccl.Colls.Parse(g.Coll)
		if err != nil {
			continue
		}
		view := groupView{c.opt.Model.For(g.Nodes, g.Ranks), g, coll, g.Sizes()}
		at := keyOf(coll, int32(g.Nodes), int32(g.Ranks))
		var decided []nccl.Range
		for _, r := range c.rows {
			if !r.active() || r.When != nil || !at.within(r.key.ofAnyCall()) {
				continue
			}
			sizes, ok := r.BytesFor(g.Ranks)
			if !ok {
				continue
			}
			if r.key == r.key.ofAnyCall() {
				decided = append(decided, sizes)
			}
			if !r.LeavesToNCCL() {
				c.rowAgainst(view, r, sizes)
			}
		}
		domain := nccl.Range{Min: view.sizes[0], Max: view.sizes[len(view.sizes)-1]}
		slices.SortFunc(decided, func(a, b nccl.Range) int { return cmp.Compare(a.Min, b.Min) })
		left := domain.Min // the first size that no row decides
		for _, sizes := range decided {
			if sizes.Min <= left {
				left = max(left, min(sizes.Max, domain.Max)+1)
			}
		}
		if left > domain.Max {
			c.findings = append(c.findings, Finding{Rule: modelMasked, Severity: Note, File: c.opt.Model.Name,
				Text: groupName(g) + ": rows of " + c.file + " decide every size from " + sizeText(domain)})
		}
	}
}

// groupView is one group of a model.
type groupView struct {
	*model.View
	group *model.Group
	coll  nccl.Coll
	sizes []uint64 // measured, ascending
}

// expected is a time in ln(us) and its standard deviation.
type expected struct{ mean, sigma float64 }

// fastest returns the least time expected among configurations; ok is false where none of them is
// known at that size.
func (v groupView) fastest(bytes uint64, is func(nccl.Algo, nccl.Proto, int) bool) (best expected, ok bool) {
	for _, c := range v.Candidates(v.coll, bytes, nccl.Everything()) {
		if is(c.Algo, c.Proto, c.Channels) && !math.IsNaN(c.LnMicros) && (!ok || c.LnMicros < best.mean) {
			best, ok = expected{c.LnMicros, c.Sigma}, true
		}
	}
	return best, ok
}

// holds reports whether a configuration was measured at any size.
func (v groupView) holds(is func(nccl.Algo, nccl.Proto, int) bool) bool {
	return slices.ContainsFunc(v.Candidates(v.coll, v.sizes[0], nccl.Everything()), func(c model.Candidate) bool {
		return is(c.Algo, c.Proto, c.Channels)
	})
}

// rowAgainst compares one row at the sizes that the model holds.
func (c *check) rowAgainst(v groupView, r *row, sizes nccl.Range) {
	any := func(nccl.Algo, nccl.Proto, int) bool { return true }
	asked := func(a nccl.Algo, p nccl.Proto, channels int) bool {
		return r.Cells.Contains(a, p) && (r.Channels == 0 || channels == int(r.Channels))
	}
	within := false
	slowest, at, times := 0.0, uint64(0), [2]float64{}
	for _, bytes := range v.sizes {
		if bytes < sizes.Min || bytes > sizes.Max {
			continue
		}
		within = true
		own, ok := v.fastest(bytes, asked)
		if !ok {
			continue
		}
		best, _ := v.fastest(bytes, any)
		loss := own.mean - best.mean
		if loss > max(slowerBy, slowerSigmas*math.Hypot(own.sigma, best.sigma)) && loss > slowest {
			slowest, at, times = loss, bytes, [2]float64{math.Exp(own.mean), math.Exp(best.mean)}
		}
	}
	switch {
	case slowest > 0:
		c.report(modelDisagrees, r.Line, "", "%s: at %s the model expects %.4g us of the row's choice, and %.4g us of the fastest", groupName(v.group), nccl.FormatBytes(at), times[0], times[1])
	case within && !v.holds(asked):
		c.report(modelChannelsUnseen, r.Line, "", "%s: what the row asks for was not measured", groupName(v.group))
	}
}
