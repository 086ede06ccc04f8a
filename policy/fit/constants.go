package fit

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// ConstantFinding is what the measurements say about one of NCCL's tuning constants.
type ConstantFinding struct {
	Family        FamilyKey
	Link          string  // of a latency per hop: nvlink, pci, "" not known; none of a base latency
	PerHop        bool    // else the base latency
	Micros, Sigma float64 // 0 where it is not known at all
	Why           string  // it is not determined; empty: it is
}

func (c ConstantFinding) String() string {
	switch {
	case !c.PerHop:
		return fmt.Sprintf("base latency of %s", c.Family)
	case c.Link == "":
		return fmt.Sprintf("latency per hop of %s", c.Family)
	}
	return fmt.Sprintf("latency per hop of %s over %s", c.Family, c.Link)
}

// Constants fits those of NCCL's tuning constants that the measurements determine, and
// lists what became of all it looked at. The section is nil where none is. home is the
// machine measured, nil if it is not known.
//
// On one node NCCL 2.30.7 (graph/tuning.cc) takes a collective's time, as its size goes
// to 0, to be a base latency plus one hop's latency per step: 2(n-1) steps for ring and
// tree AllReduce on n ranks, n-1 for ring AllGather and ReduceScatter. Two different
// numbers of steps determine both. NVLS has one latency, however many ranks.
//
// Over several nodes the network's latency comes in, which is not NCCL's constant
// alone; and the limits on bandwidth show only where nothing else limits. Neither is
// fitted.
func Constants(set *Set, home *topo.Summary) (*model.Constants, []ConstantFinding) {
	points := map[FamilyKey][]latencyPoint{}
	for _, g := range set.Groups {
		for _, cells := range g.families() {
			f := cells[0].Config.FamilyKey
			points[f] = append(points[f], g.latency(cells))
		}
	}
	families := slices.SortedFunc(maps.Keys(points), FamilyKey.compare)
	var findings []ConstantFinding
	c := &model.Constants{}
	for _, f := range families {
		for _, found := range findConstants(f, points[f], home) {
			findings = append(findings, found)
			if found.Why == "" {
				found.addTo(c)
			}
		}
	}
	if len(c.Values()) == 0 {
		c = nil
	}
	return c, findings
}

func (c ConstantFinding) addTo(to *model.Constants) {
	l := model.LatencyConstant{Link: c.Link, Algo: c.Family.Algo.String(), Proto: c.Family.Proto.String(), Micros: round(c.Micros, 3), Sigma: round(c.Sigma, 2)}
	if c.PerHop {
		to.HWLatencies = append(to.HWLatencies, l)
	} else {
		to.BaseLatencies = append(to.BaseLatencies, l)
	}
}

// latencyPoint is the time of one collective as its size goes to 0.
type latencyPoint struct {
	x             float64 // hops; of sizes on the way there, bytes
	micros, sigma float64
	why           string // it is not known
}

// latency is what a family takes with the channel count that is the fastest at the
// smallest sizes.
func (g *Group) latency(cells []Cell) (best latencyPoint) {
	f := cells[0].Config.FamilyKey
	best.why = "measured over several nodes only, where the network's latency cannot be told apart"
	if g.Nodes != 1 {
		return best
	}
	steps, ok := nodeSteps(g.Key, f.Algo)
	if !ok {
		best.why = fmt.Sprintf("NCCL's cost model has no such latency for %s", g.Coll)
		return best
	}
	best.why = "the smallest sizes measured are not small enough to be all latency"
	for i := 0; i < len(cells); {
		j := i
		for j < len(cells) && cells[j].Config == cells[i].Config {
			j++
		}
		if p, ok := g.plateau(cells[i:j]); ok && (best.why != "" || p.micros < best.micros) {
			p.x = float64(steps)
			best = p
		}
		i = j
	}
	return best
}

// nodeSteps is the number of hops of a collective on one node.
func nodeSteps(k Key, a nccl.Algo) (steps int, ok bool) {
	switch {
	case a == nccl.AlgoNVLS:
		return 1, k.Coll != nccl.CollBroadcast && k.Coll != nccl.CollReduce
	case a != nccl.AlgoRing && a != nccl.AlgoTree:
		return 0, false
	case k.Coll == nccl.CollAllReduce:
		return 2 * (k.Ranks - 1), true
	case a == nccl.AlgoRing && (k.Coll == nccl.CollAllGather || k.Coll == nccl.CollReduceScatter):
		return k.Ranks - 1, true
	}
	return 0, false
}

// flatNoises is how many noises two neighbouring sizes may differ by to be taken for
// alike.
const flatNoises = 3

// plateau takes the smallest sizes of one configuration, if at least two are alike, and
// follows them down to size 0.
func (g *Group) plateau(cells []Cell) (p latencyPoint, ok bool) {
	cells = slices.DeleteFunc(slices.Clone(cells), func(c Cell) bool { return c.Outlier })
	var flat []latencyPoint
	for _, c := range cells {
		if math.Abs(math.Log(c.Micros/cells[0].Micros)) > flatNoises*math.Sqrt2*g.cellNoise(c) {
			break
		}
		flat = append(flat, latencyPoint{x: float64(c.Bytes), micros: c.Micros, sigma: c.Micros * g.cellNoise(c)})
	}
	if len(flat) < 2 {
		return p, false
	}
	line, ok := fitLine(flat)
	p.micros, p.sigma = line.base, line.baseSigma
	if line.slope < 0 { // more bytes do not take less time
		p.micros, p.sigma = average(flat)
	}
	return p, ok
}

// findConstants says what the points of a family determine.
func findConstants(f FamilyKey, all []latencyPoint, home *topo.Summary) []ConstantFinding {
	base, hop := ConstantFinding{Family: f}, ConstantFinding{Family: f, PerHop: true}
	points := slices.DeleteFunc(slices.Clone(all), func(p latencyPoint) bool { return p.why != "" })
	if len(points) == 0 {
		base.Why = all[0].why
		return []ConstantFinding{base}
	}
	if f.Algo == nccl.AlgoNVLS {
		hop.Link = "nvlink"
		hop.Micros, hop.Sigma = average(points)
		hop.Why = undetermined(hop.Micros, hop.Sigma)
		return []ConstantFinding{hop}
	}
	line, ok := fitLine(points)
	if !ok {
		base.Why = fmt.Sprintf("with %.0f hops it takes %.3g us in all: measure another number of ranks on one node", points[0].x, points[0].micros)
		if f.Algo == nccl.AlgoRing {
			base.Why += ", or both allreduce and allgather"
		}
		return []ConstantFinding{base}
	}
	base.Micros, base.Sigma = line.base, line.baseSigma
	base.Why = undetermined(base.Micros, base.Sigma)
	hop.Micros, hop.Sigma = line.slope, line.slopeSigma
	hop.Link = linkOf(home)
	hop.Why = undetermined(hop.Micros, hop.Sigma)
	if hop.Why == "" && hop.Link == "" {
		hop.Why = "without the machine's topology there is no telling whether the hops are NVLink or PCI"
	}
	// One of them beside NCCL's own other one may be farther off than NCCL is.
	switch {
	case base.Why == "" && hop.Why != "":
		base.Why = fmt.Sprintf("%.3g us (uncertain by %.2g us) holds only together with the latency per hop", base.Micros, base.Sigma)
	case base.Why != "" && hop.Why == "":
		hop.Why = fmt.Sprintf("%.3g us (uncertain by %.2g us) holds only together with the base latency", hop.Micros, hop.Sigma)
	}
	return []ConstantFinding{base, hop}
}

// linkOf is the class of link between the GPUs of a machine, as NCCL's cost model sees
// it: NVLink, or anything slower.
func linkOf(home *topo.Summary) string {
	switch {
	case home == nil || home.Intra == "":
		return ""
	case home.Intra == topo.PathNVL.String():
		return "nvlink"
	}
	return "pci"
}

// mostUncertain is the share of a constant that its standard deviation may be.
const mostUncertain = 0.3

func undetermined(micros, sigma float64) string {
	switch {
	case !(micros > 0):
		return fmt.Sprintf("%.3g us would fit best, which cannot be", micros)
	case !(sigma <= mostUncertain*micros):
		return fmt.Sprintf("%.3g us is uncertain by %.3g us", micros, sigma)
	}
	return ""
}

func average(points []latencyPoint) (micros, sigma float64) {
	sum, weights := 0.0, 0.0
	for _, p := range points {
		w := 1 / (p.sigma * p.sigma)
		sum, weights = sum+w*p.micros, weights+w
	}
	micros = sum / weights
	return micros, math.Sqrt(1/weights) * disagreement(points, 1, func(latencyPoint) float64 { return micros })
}

// disagreement is how many times farther points are off a fit than their uncertainty
// says; at least 1. Not all collectives are alike where NCCL's model takes them to be.
func disagreement(points []latencyPoint, parameters int, fit func(latencyPoint) float64) float64 {
	if len(points) <= parameters {
		return 1
	}
	chi := 0.0
	for _, p := range points {
		off := (p.micros - fit(p)) / p.sigma
		chi += off * off
	}
	return max(1, math.Sqrt(chi/float64(len(points)-parameters)))
}

type latencyLine struct{ base, baseSigma, slope, slopeSigma float64 }

// fitLine finds base + x*slope by weighted least squares. ok is false where all points
// have the same x.
func fitLine(points []latencyPoint) (l latencyLine, ok bool) {
	var w, x, y, xx, xy float64
	for _, p := range points {
		weight := 1 / (p.sigma * p.sigma)
		w += weight
		x += weight * p.x
		y += weight * p.micros
		xx += weight * p.x * p.x
		xy += weight * p.x * p.micros
		ok = ok || p.x != points[0].x
	}
	if !ok {
		return l, false
	}
	det := w*xx - x*x
	l.base, l.slope = (xx*y-x*xy)/det, (w*xy-x*y)/det
	more := disagreement(points, 2, func(p latencyPoint) float64 { return l.base + l.slope*p.x })
	l.baseSigma, l.slopeSigma = more*math.Sqrt(xx/det), more*math.Sqrt(w/det)
	return l, true
}
