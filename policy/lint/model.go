package lint

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// poorRegret: a decision on left-out sizes may take that much longer than the best time, on
// average. Models of good measurements stay below 1.03, of poor ones below 1.05.
const poorRegret = 1.05

// CheckModel finds what is wrong with a model file, and compiles it; the model is nil if it cannot be used.
// machine is the fingerprint of where it is going to be used; nil: not known.
func CheckModel(file string, text []byte, machine *topo.Fingerprint) ([]Finding, *model.Model) {
	c := &check{file: file}
	m, err := model.Read(file, text)
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			c.report(modelInvalid, 0, "", "%s", strings.TrimPrefix(line, file+": "))
		}
		return c.findings, nil
	}
	p := m.File.Provenance
	if p.SimulatedRows > 0 {
		c.report(modelSimulated, 0, "", "%d of the measurements it was fitted to are simulated", p.SimulatedRows)
	}
	if p.Topology != nil && machine != nil && p.Topology.Fingerprint != *machine {
		c.report(modelMachine, 0, "", "it was measured on a different machine (%s) than this one (%s)",
			p.Topology.Fingerprint, *machine)
	}
	for i := range m.File.CurveSets {
		c.group(&m.File.CurveSets[i])
	}
	return c.findings, m
}

func (c *check) group(g *model.CurveSet) {
	name := groupName(g)
	for _, s := range g.HeldOut {
		if s.LeftOut != model.LeftOutSizes || s.Decisions == 0 {
			continue
		}
		if s.Mean > poorRegret {
			c.report(modelRegret, 0, "",
				"%s: with %s left out, decisions took %.3f times the best time measured on average, %.2f at worst",
				name, s.LeftOut, s.Mean, s.Max)
		} else if s.VersusDefault > 1 {
			c.report(modelRegret, 0, "", "%s: with %s left out, decisions took %.3f times as long as NCCL's choice",
				name, s.LeftOut, s.VersusDefault)
		}
	}
	if len(g.Default) == 0 {
		c.report(modelNoDefault, 0, "", "%s: the default was not measured", name)
	}
}

func groupName(g *model.CurveSet) string {
	return fmt.Sprintf("%s with %s", g.Coll, keyOf(model.Key{Coll: anyColl, Comm: g.Comm}))
}

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
