package model

import (
	"math"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Choice is a configuration and what the model expects of it.
type Choice struct {
	nccl.Config // NoCell: none

	LnMicros, Sigma               float64 // expected ln(us) and its standard deviation
	DefaultLnMicros, DefaultSigma float64 // of what NCCL would do; NaN: not known
	// Needed is the gain in ln(us) that the choice has to exceed, 0 where the default is not known
	// or is the choice itself.
	Needed float64
	// Verified says that the times are of a verification at this very size.
	Verified bool
}

// Micros is the expected time. It is for people: decisions compare LnMicros.
func (c Choice) Micros() float64 { return math.Exp(c.LnMicros) }

// DefaultMicros is the expected time of what NCCL would do; NaN: not known.
func (c Choice) DefaultMicros() float64 { return math.Exp(c.DefaultLnMicros) }

// Gain is what the choice is expected to win, as a share of the default's time; NaN where that is
// not known.
func (c Choice) Gain() float64 { return 1 - math.Exp(c.LnMicros-c.DefaultLnMicros) }

// NeededGain is Needed as such a share.
func (c Choice) NeededGain() float64 { return 1 - math.Exp(-c.Needed) }

const (
	// leastGain in ln(us): less is not worth a deviation from NCCL.
	leastGain = 0.01
	// sigmasOfGain: two times must differ by so many standard deviations of their difference. At
	// half of one, seven of ten choices that are no better than NCCL's are left out, and few that are.
	sigmasOfGain = 0.5
	// doubt is how many sigmas are added to a predicted time before times are compared: of two that
	// look alike the better known one is chosen. More than that gives away too much.
	doubt = 0.25

	// Configurations scale differently with the number of nodes, by about max(leastSpread,
	// spreadPerDoubling*log2(N/n)) with heavy tails.
	leastSpread       = 0.15
	spreadPerDoubling = 0.07
	spreadsOfGain     = 2.5
)

// Choose returns the fastest configuration known among the available cells, and whether to choose
// it: only if that gains more than the model may be wrong by. Where it abstains the choice is
// what it would have been, as far as known.
//
// It reads nothing but its arguments and the model, in a fixed order of operations: equal arguments
// give equal answers on all ranks.
func (v *View) Choose(coll nccl.Coll, bytes uint64, costs nccl.Costs) (Choice, Abstention) {
	g, octave, why := v.find(coll, bytes)
	if g == nil {
		return NoChoice, why
	}
	if won, ok := g.verdict(bytes); ok {
		if choice, why, ok := v.verified(coll, g, won, costs); ok {
			return choice, why
		}
	}
	choice, best, why := v.fastest(coll, g, octave, costs)
	if best == nil {
		return NoChoice, why
	}
	ln, sigma, same, ok := v.defaultTime(g, bytes, costs, best)
	if !ok {
		return choice, AbstainDefault
	}
	choice.DefaultLnMicros, choice.DefaultSigma = ln, sigma
	if same {
		return choice, AbstainBest
	}
	needed := choice.needed()
	choice.Needed = needed + v.farther[coll]
	switch gain := ln - choice.LnMicros; {
	case !(gain > 0):
		return choice, AbstainBest
	case !(gain > needed):
		return choice, AbstainGain
	case !(gain > choice.Needed):
		return choice, AbstainFarther
	}
	return choice, Decides
}

// needed is the gain in ln(us) below which the choice may be no gain at all.
func (c Choice) needed() float64 {
	return max(leastGain, sigmasOfGain*math.Sqrt(c.Sigma*c.Sigma+c.DefaultSigma*c.DefaultSigma))
}

// NoChoice is the choice where no configuration is known.
var NoChoice = Choice{Config: nccl.Config{Cell: nccl.NoCell}, LnMicros: math.NaN(), DefaultLnMicros: math.NaN()}

// find returns the group of a collective and the logarithm of a size in it, or says why there is
// none.
func (v *View) find(coll nccl.Coll, bytes uint64) (g *compiledGroup, octave float64, why Abstention) {
	switch {
	case !coll.IsAsked():
		return nil, 0, AbstainColl
	case v.groups[coll] == nil:
		return nil, 0, v.abstains[coll]
	case !v.groups[coll].sizes.Contains(bytes):
		return nil, 0, AbstainSize
	}
	return v.groups[coll], log2(bytes), Decides
}

// Fastest returns the configuration that should be the fastest among the available cells, with no
// regard to what NCCL would do or whether it is sure. It says what a model predicts; what a policy
// does, Choose decides.
func (v *View) Fastest(coll nccl.Coll, bytes uint64, costs nccl.Costs) (Choice, bool) {
	g, octave, _ := v.find(coll, bytes)
	if g == nil {
		return NoChoice, false
	}
	choice, best, _ := v.fastest(coll, g, octave, costs)
	return choice, best != nil
}

// fastest finds the curve with the least time, nil: none.
func (v *View) fastest(coll nccl.Coll, g *compiledGroup, octave float64, costs nccl.Costs) (choice Choice, best *compiledCurve, why Abstention) {
	why, choice = AbstainSize, NoChoice
	least := math.Inf(1)
	noRing := costs.RingIsGuarded()
	for i := range g.curves {
		c := &g.curves[i]
		if v.offer(coll, c, &costs, noRing) != BarNone {
			why = AbstainCells
			continue
		}
		ln, sigma := c.at(octave)
		if score := ln + doubt*sigma; score < least { // not if it is NaN
			least, best = score, c
			choice.Algo, choice.Proto, choice.Channels, choice.LnMicros, choice.Sigma = c.Algo, c.Proto, c.Channels, ln, sigma
		}
	}
	return choice, best, why
}

// Bar says why a configuration may not be chosen, however fast it is. The zero value means that it
// may.
type Bar int8

const (
	BarNone Bar = iota
	BarNotOffered
	BarGuarded
	BarChannels
	BarSize
)

var bars = [...]string{
	BarNone:       "",
	BarNotOffered: "NCCL does not offer it here",
	BarGuarded:    "NCCL keeps from ring here, where FP8 sums would lose precision",
	BarChannels:   "NCCL does not check its channel count here",
	BarSize:       "not measured with it at such sizes",
}

func (b Bar) String() string { return bars[b] }

// offer is what NCCL's table has against a curve.
func (v *View) offer(coll nccl.Coll, c *compiledCurve, costs *nccl.Costs, noRing bool) Bar {
	switch {
	case !costs.Offers(c.Algo, c.Proto):
		return BarNotOffered
	case noRing && c.Algo == nccl.AlgoRing:
		return BarGuarded
	case c.Channels > 0 && !nccl.ChannelsAreChecked(coll, c.Algo, v.nodes, v.UncheckedAllGather):
		return BarChannels
	}
	return BarNone
}

func (g *compiledGroup) curve(algo nccl.Algo, proto nccl.Proto, channels int) *compiledCurve {
	for i := range g.curves {
		if c := &g.curves[i]; c.Algo == algo && c.Proto == proto && c.Channels == channels {
			return c
		}
	}
	return nil
}

// Predict returns what the model expects of a configuration: ln(us) and its standard deviation,
// which includes the noise of measuring it once. ok is false where it was not measured around the size.
func (v *View) Predict(coll nccl.Coll, algo nccl.Algo, proto nccl.Proto, channels int, bytes uint64) (lnMicros, sigma float64, ok bool) {
	g, octave, _ := v.find(coll, bytes)
	if g == nil {
		return 0, 0, false
	}
	c := g.curve(algo, proto, channels)
	if c == nil || !c.has(octave) {
		return 0, 0, false
	}
	lnMicros, sigma = c.at(octave)
	return lnMicros, sigma, true
}
