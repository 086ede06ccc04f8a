package policy

import (
	"math"
	"slices"
)

// ModelView is a model for one communicator.
type ModelView struct {
	nodes  int
	groups [NumColls]*modelGroup
	silent [NumColls]Silence // why there is no group
	// farther is the gain in ln(us) demanded for having been measured on fewer
	// nodes, beyond all else; 0 where it was measured on as many.
	farther [NumColls]float64
}

// Silence says why a model leaves a collective to NCCL. The zero value means that
// it does not.
type Silence int8

const (
	Speaks Silence = iota
	SilentColl
	SilentComm
	SilentOneNode
	SilentPerNode
	SilentNodes
	SilentSize
	SilentCells
	SilentTwins
	SilentDefault
	SilentBest
	SilentGain
)

var silences = [...]string{
	Speaks:        "",
	SilentColl:    "the collective was not measured",
	SilentComm:    "the communicator was not measured",
	SilentOneNode: "one node tells nothing about several, nor the reverse",
	SilentPerNode: "another number of ranks per node was measured",
	SilentNodes:   "another number of nodes was measured",
	SilentSize:    "the size is outside those measured",
	SilentCells:   "no configuration that NCCL offers here was measured",
	SilentTwins:   "the labels of what was measured here cannot be trusted",
	SilentDefault: "what NCCL would choose here was not measured",
	SilentBest:    "NCCL's own choice is the best known",
	SilentGain:    "the gain is within the model's uncertainty",
}

func (s Silence) String() string { return silences[s] }

// ModelChoice is a configuration and what the model expects of it.
type ModelChoice struct {
	Algo     Algo // -1: none
	Proto    Proto
	Channels int // 0: leave NCCL's count

	LnMicros, Sigma               float64 // expected ln(us) and its standard deviation
	DefaultLnMicros, DefaultSigma float64 // of what NCCL would do; NaN: not known
}

// Micros is the expected time. It is for people: decisions compare LnMicros.
func (c ModelChoice) Micros() float64 { return math.Exp(c.LnMicros) }

// Gain is what the choice is expected to win, as a share of the default's time;
// NaN where that is not known.
func (c ModelChoice) Gain() float64 { return 1 - math.Exp(c.LnMicros-c.DefaultLnMicros) }

const (
	// leastGain in ln(us): less is not worth a deviation from NCCL.
	leastGain = 0.01
	// noisesOfGain: two measured times must differ by so many noises.
	noisesOfGain = 2
	// sigmasOfGain: with a predicted time on either side, by so many sigmas of both.
	sigmasOfGain = 1
	// doubt is how many sigmas are added to a predicted time before times are
	// compared: of two that look alike the better known one is chosen. More than
	// that gives away too much.
	doubt = 0.25

	// Configurations scale differently with the number of nodes, by about
	// max(leastSpread, spreadPerDoubling*log2(N/n)) with heavy tails.
	leastSpread       = 0.15
	spreadPerDoubling = 0.07
	spreadsOfGain     = 2.5

	// guardedRing: NCCL multiplies ring's costs by 1024 where FP8 sums would lose
	// precision. No measured pair of configurations is this far apart.
	guardedRing = 250
)

// For narrows a model to one communicator.
func (m *Model) For(nodes, ranks int) *ModelView {
	v := &ModelView{nodes: nodes}
	for coll := range Coll(NumColls) {
		v.groups[coll] = m.groups[modelKey{coll, nodes, ranks}]
		if v.groups[coll] == nil {
			v.groups[coll], v.silent[coll] = m.nearest(coll, nodes, ranks)
		}
		if g := v.groups[coll]; g != nil && g.file.Nodes != nodes {
			v.farther[coll] = spreadsOfGain * max(leastSpread, spreadPerDoubling*(log2(uint64(nodes))-log2(uint64(g.file.Nodes))))
		}
	}
	return v
}

// nearest finds a group to stand in for one that was not measured, or says why
// none may.
func (m *Model) nearest(coll Coll, nodes, ranks int) (*modelGroup, Silence) {
	why := SilentColl
	var best *modelGroup
	for key, g := range m.groups {
		if key.coll != coll {
			continue
		}
		reason := SilentNodes
		switch {
		case ranks < 1 || nodes < 1:
			reason = SilentComm
		case (key.nodes == 1) != (nodes == 1):
			reason = SilentOneNode
		case key.ranks*nodes != ranks*key.nodes:
			reason = SilentPerNode
		case key.nodes < nodes && nodes <= m.File.MaxNodes && (best == nil || key.nodes > best.file.Nodes):
			best = g
		}
		why = max(why, reason)
	}
	if best != nil {
		return best, Speaks
	}
	return nil, why
}

// Empty reports that the model has no answer for this communicator at all.
func (v *ModelView) Empty() bool {
	return !slices.ContainsFunc(v.groups[:], func(g *modelGroup) bool { return g != nil })
}

// Choose returns the fastest configuration known among the available cells, and
// whether to choose it: only if that gains more than the model may be wrong by.
// Where it stays silent the choice is what it would have been, as far as known.
//
// It reads nothing but its arguments and the model, in a fixed order of
// operations: equal arguments give equal answers on all ranks.
func (v *ModelView) Choose(coll Coll, bytes uint64, costs Costs) (ModelChoice, Silence) {
	g, at, why := v.place(coll, bytes)
	if g == nil {
		return noChoice, why
	}
	choice, best, why := v.fastest(g, at, costs, false)
	if best < 0 {
		return noChoice, why
	}
	def, same, ok := v.defaultTime(g, at, costs, &g.curves[best])
	if !ok {
		return choice, SilentDefault
	}
	choice.DefaultLnMicros, choice.DefaultSigma = def.mean, def.sigma
	if same {
		return choice, SilentBest
	}
	needed := sigmasOfGain * math.Sqrt(float64(choice.Sigma*choice.Sigma)+float64(def.sigma*def.sigma))
	if def.measured && at.exact() && g.curves[best].measured[at.i] {
		needed = noisesOfGain * g.file.Noise
	}
	needed = max(needed, leastGain) + v.farther[coll]
	switch gain := def.mean - choice.LnMicros; {
	case !(gain > 0):
		return choice, SilentBest
	case !(gain > needed):
		return choice, SilentGain
	}
	return choice, Speaks
}

var noChoice = ModelChoice{Algo: -1, Proto: -1, LnMicros: math.NaN(), DefaultLnMicros: math.NaN()}

// place finds a group and a size in it, or says why there is none.
func (v *ModelView) place(coll Coll, bytes uint64) (*modelGroup, spot, Silence) {
	switch {
	case coll < 0 || coll >= NumColls:
		return nil, spot{}, SilentColl
	case v.groups[coll] == nil:
		return nil, spot{}, v.silent[coll]
	}
	g := v.groups[coll]
	if bytes < g.axis[0] || bytes > g.axis[len(g.axis)-1] {
		return nil, spot{}, SilentSize
	}
	return g, g.locate(bytes), Speaks
}

// Fastest returns the configuration that should be the fastest among the
// available cells, with no regard to what NCCL would do or whether it is sure.
// It says what a model predicts; what a policy does, Choose decides.
func (v *ModelView) Fastest(coll Coll, bytes uint64, costs Costs) (ModelChoice, bool) {
	g, at, _ := v.place(coll, bytes)
	if g == nil {
		return noChoice, false
	}
	choice, best, _ := v.fastest(g, at, costs, true)
	return choice, best >= 0
}

// fastest finds the curve with the least time, -1 for none. Beyond the sizes
// measured with a configuration itself, where a prediction rests on its relatives
// alone, it counts only if asked for.
func (v *ModelView) fastest(g *modelGroup, at spot, costs Costs, beyond bool) (choice ModelChoice, best int, why Silence) {
	best, why, choice = -1, SilentSize, noChoice
	least := math.Inf(1)
	noRing := costs.ringIsGuarded()
	for i := range g.curves {
		c := &g.curves[i]
		if !costs.offers(c.algo, c.proto) || noRing && c.algo == AlgoRing || c.channels > 0 && !channelsAreSafe(c.algo, v.nodes) {
			if why == SilentSize {
				why = SilentCells
			}
			continue
		}
		mean := at.value(c.ln)
		score := mean + float64(doubt*at.value(c.sigma))
		if !(score < least) { // nor if it is NaN
			continue
		}
		if !beyond && !c.own.contains(at.bytes) {
			continue
		}
		if slices.ContainsFunc(c.distrust, func(r Range) bool { return r.contains(at.bytes) }) {
			why = SilentTwins
			continue
		}
		least, best = score, i
		choice.Algo, choice.Proto, choice.Channels, choice.LnMicros, choice.Sigma = c.algo, c.proto, c.channels, mean, at.value(c.sigma)
	}
	return choice, best, why
}

type defaultTime struct {
	mean, sigma float64
	measured    bool // at this very size
}

// defaultTime is what NCCL's own choice takes. Where what it would choose now is
// not what it chose when measured, the fastest that its cell can be stands in, so
// that a gain is never assumed.
func (v *ModelView) defaultTime(g *modelGroup, at spot, costs Costs, best *modelCurve) (d defaultTime, same, ok bool) {
	pickAlgo, pickProto := costs.split(costs.cheapest(everyCell))
	is := func(algo Algo, proto Proto) bool { return int(algo) == pickAlgo && int(proto) == pickProto }
	below, above, known := g.defaultsAround(at.bytes)
	if known {
		unlabelled := below.algo < 0 || above.algo < 0
		if costs.AvailableOnly || unlabelled || is(below.algo, below.proto) || is(above.algo, above.proto) {
			d.mean, d.sigma = at.in(g.byDef)
			d.measured = below.bytes == at.bytes
			switchBetween := !unlabelled && (below.algo != above.algo || below.proto != above.proto)
			if switchBetween && !costs.AvailableOnly {
				label := below
				if !is(below.algo, below.proto) {
					label = above
				}
				if c := g.curve(label.algo, label.proto, label.channels); c != nil {
					if mean, sigma := at.in(c.modelTable); sigma > 0 {
						d.mean, d.sigma = mean, sigma
					}
				}
			}
			same = below.algo == best.algo && below.proto == best.proto && below.channels == best.channels &&
				above.algo == best.algo && above.proto == best.proto && above.channels == best.channels
			return d, same, d.sigma > 0
		}
	}
	if pickAlgo < 0 {
		return d, false, false
	}
	found := false
	for i := range g.curves {
		c := &g.curves[i]
		if !is(c.algo, c.proto) {
			continue
		}
		if mean, sigma := at.in(c.modelTable); sigma > 0 && (!found || mean < d.mean) {
			d.mean, d.sigma, d.measured, found = mean, sigma, at.exact() && c.measured[at.i], true
		}
	}
	return d, false, found
}

// defaultsAround returns the measured defaults at or next to a size, twice the
// same where it was measured itself.
func (g *modelGroup) defaultsAround(bytes uint64) (below, above modelDefault, ok bool) {
	i, exact := slices.BinarySearchFunc(g.defaults, bytes, func(d modelDefault, b uint64) int {
		switch {
		case d.bytes < b:
			return -1
		case d.bytes > b:
			return 1
		}
		return 0
	})
	switch {
	case exact:
		return g.defaults[i], g.defaults[i], true
	case i == 0 || i == len(g.defaults):
		return below, above, false
	}
	return g.defaults[i-1], g.defaults[i], true
}

func (g *modelGroup) curve(algo Algo, proto Proto, channels int) *modelCurve {
	for i := range g.curves {
		if c := &g.curves[i]; c.algo == algo && c.proto == proto && c.channels == channels {
			return c
		}
	}
	return nil
}

// Predict returns what the model expects of a configuration: ln(us) and its
// standard deviation, which includes the noise of measuring it once.
func (v *ModelView) Predict(coll Coll, algo Algo, proto Proto, channels int, bytes uint64) (lnMicros, sigma float64, ok bool) {
	g, at, _ := v.place(coll, bytes)
	if g == nil {
		return 0, 0, false
	}
	c := g.curve(algo, proto, channels)
	if c == nil {
		return 0, 0, false
	}
	lnMicros, sigma = at.in(c.modelTable)
	return lnMicros, sigma, sigma > 0
}

// spot is a size's position on an axis: t of the way from value i to the next.
type spot struct {
	bytes uint64
	i     int
	t     float64
}

// locate a size within the axis.
func (g *modelGroup) locate(bytes uint64) spot {
	i, exact := slices.BinarySearch(g.axis, bytes)
	if exact {
		return spot{bytes, i, 0}
	}
	return spot{bytes, i - 1, (log2(bytes) - g.octaves[i-1]) / (g.octaves[i] - g.octaves[i-1])}
}

func (p spot) exact() bool { return p.t == 0 }

// in interpolates; NaN where the table has no value on either side.
func (p spot) in(t modelTable) (mean, sigma float64) {
	if len(t.ln) == 0 {
		return math.NaN(), math.NaN()
	}
	return p.value(t.ln), p.value(t.sigma)
}

func (p spot) value(v []float64) float64 {
	if p.exact() {
		return v[p.i]
	}
	return between(v[p.i], v[p.i+1], p.t)
}

// offers reports whether NCCL can use a cell.
func (c Costs) offers(algo Algo, proto Proto) bool {
	if c.NumProto == 0 || int(proto) >= c.NumProto {
		return false
	}
	i := int(algo)*c.NumProto + int(proto)
	return i < len(c.Micros) && available(c.Micros[i])
}

// ringIsGuarded reports NCCL's precision guard: every ring cell far above the
// cheapest other one.
func (c Costs) ringIsGuarded() bool {
	if c.AvailableOnly {
		return false
	}
	ring, other := float32(math.MaxFloat32), float32(math.MaxFloat32)
	for i, micros := range c.Micros {
		switch {
		case !available(micros):
		case i/c.NumProto == int(AlgoRing):
			ring = min(ring, micros)
		default:
			other = min(other, micros)
		}
	}
	return other < math.MaxFloat32 && ring < math.MaxFloat32 && ring > guardedRing*other
}
