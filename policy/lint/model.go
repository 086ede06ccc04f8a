package lint

import (
	"fmt"
	"strings"

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
	if p.Topology != nil && machine != nil && p.Topology.Fingerprint != string(*machine) {
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
