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
func CheckModel(file string, text []byte, machine *topo.Fingerprint) ([]Diagnostic, *model.Model) {
	c := &check{file: file}
	m, err := model.Read(file, text)
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			c.report("model-invalid", 0, "", "%s", strings.TrimPrefix(line, file+": "))
		}
		return c.findings, nil
	}
	p := m.File.Provenance
	if p.SimulatedRows > 0 {
		c.report("model-simulated", 0, "", "%d of the measurements it was fitted to are simulated", p.SimulatedRows)
	}
	if p.Topology != nil && machine != nil && p.Topology.Fingerprint != *machine {
		c.report("model-machine", 0, "", "it was measured on a different machine (%s) than this one (%s)",
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
			c.report("model-regret", 0, "",
				"%s: with %s left out, decisions took %.3f times the best time measured on average, %.2f at worst",
				name, s.LeftOut, s.Mean, s.Max)
		} else if s.VersusDefault > 1 {
			c.report("model-regret", 0, "", "%s: with %s left out, decisions took %.3f times as long as NCCL's default",
				name, s.LeftOut, s.VersusDefault)
		}
	}
	if len(g.Default) == 0 {
		c.report("model-no-default", 0, "", "%s: the default was not measured", name)
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
		at, view := keyOf(g.Key()), c.opt.Model.For(g.Comm)
		for _, r := range c.rows {
			if !r.active() || r.When != nil || r.LeavesToNCCL() || !at.within(r.key.ofAnyCall()) {
				continue
			}
			if sizes, ok := r.BytesFor(g.Ranks); ok {
				c.rowAgainst(g, view, r, sizes)
			}
		}
	}
}

// rowAgainst compares one row at the sizes that the model holds.
func (c *check) rowAgainst(g *model.CurveSet, view *model.View, r *row, sizes nccl.Range) {
	asked := func(c nccl.Config) bool {
		return r.Cells.Contains(c.Cell) && (r.Channels == 0 || c.Channels == int(r.Channels))
	}
	within := false
	slowest, at, times := 0.0, uint64(0), [2]float64{}
	for _, bytes := range g.Sizes() {
		if !sizes.Contains(bytes) {
			continue
		}
		within = true
		var best, chosen *model.Candidate // the fastest, and of what the row asks for
		all := view.Candidates(nccl.Call{Coll: g.Key().Coll, Bytes: bytes}, nccl.Everything())
		for i := range all {
			o := &all[i]
			if o.Unknown() {
				continue
			}
			if best == nil || o.LnMicros < best.LnMicros {
				best = o
			}
			if asked(o.Config) && (chosen == nil || o.LnMicros < chosen.LnMicros) {
				chosen = o
			}
		}
		if chosen == nil {
			continue
		}
		loss := chosen.LnMicros - best.LnMicros
		if loss > max(slowerBy, slowerSigmas*math.Hypot(chosen.Sigma, best.Sigma)) && loss > slowest {
			slowest, at, times = loss, bytes, [2]float64{chosen.Micros(), best.Micros()}
		}
	}
	switch {
	case slowest > 0:
		c.report("model-disagrees", r.Line, "",
			"%s: at %s the model expects %.4g us of the row's choice, and %.4g us of the fastest", groupName(g),
			nccl.FormatBytes(at), times[0], times[1])
	case within && !slices.ContainsFunc(g.Curves, func(f model.Curve) bool { return asked(f.Config()) }):
		c.report("model-channels-unseen", r.Line, "", "%s: what the row asks for was not measured", groupName(g))
	}
}
