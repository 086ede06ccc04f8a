package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Time is an expected time. Both numbers are NaN where none is known.
type Time struct {
	LnMicros float64
	Sigma    float64 // standard deviation of LnMicros, the noise of measuring it once included
}

var unknownTime = Time{math.NaN(), math.NaN()}

// Unknown reports whether no time is expected.
func (t Time) Unknown() bool { return math.IsNaN(t.LnMicros) }

// Micros is for people: decisions compare LnMicros.
func (t Time) Micros() float64 { return math.Exp(t.LnMicros) }

// quantile95 of the normal distribution: 90 % of values lie within so many sigmas of the mean.
const quantile95 = 1.6449

// Band is the 90 % interval of LnMicros, to either side.
func (t Time) Band() float64 { return quantile95 * t.Sigma }

// Choice is a configuration and what the model expects of it.
type Choice struct {
	nccl.Config // NoCell: none
	Time
	Default Time // of what NCCL would do
	// Needed is the gain in ln(us) that the choice has to exceed, 0 where the default is not known
	// or is the choice itself.
	Needed float64
	// Verified says that the times are of a verification at this very size.
	Verified bool
}

// LnGain is by how much the choice is expected to be faster, in ln(us); NaN where the default is not known.
func (c Choice) LnGain() float64 { return c.Default.LnMicros - c.LnMicros }

// Gain is what the choice is expected to win, as a share of the default's time; NaN where that is
// not known.
func (c Choice) Gain() float64 { return 1 - math.Exp(-c.LnGain()) }

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
)

// Choose returns the fastest configuration known among the available cells, and whether to choose it: only if
// that gains more than the model may be wrong by. If it abstains, the choice is what it would have been, as
// far as known.
//
// It reads nothing but its arguments and the model, in a fixed order of operations: equal arguments give equal
// answers on all ranks.
func (v *View) Choose(call nccl.Call, costs nccl.Costs) (Choice, Abstention) {
	g, octave, why := v.find(call)
	if g == nil {
		return NoChoice, why
	}
	if won := g.verifiedAt(call.Bytes); won != nil {
		if choice, why, ok := v.verified(call, g, won, costs); ok {
			return choice, why
		}
	}
	choice, why := v.fastest(call, g, octave, costs)
	if !choice.Known() {
		return choice, why
	}
	var same bool
	if choice.Default, same = g.defaultTime(call.Bytes, costs, choice.Config); choice.Default.Unknown() {
		return choice, AbstainDefault
	}
	if same {
		return choice, AbstainBest
	}
	choice.Needed = choice.needed()
	switch gain := choice.LnGain(); {
	case !(gain > 0):
		return choice, AbstainBest
	case !(gain > choice.Needed):
		return choice, AbstainGain
	}
	return choice, Decides
}

// needed is the gain in ln(us) below which the choice may be no gain at all.
func (c Choice) needed() float64 {
	return max(leastGain, sigmasOfGain*math.Sqrt(c.Sigma*c.Sigma+c.Default.Sigma*c.Default.Sigma))
}

// NoChoice is the choice where no configuration is known.
var NoChoice = Choice{Config: nccl.Config{Cell: nccl.NoCell}, Time: unknownTime, Default: unknownTime}

// find returns the group of a collective and the logarithm of a size in it. If there is no group, it says why.
func (v *View) find(call nccl.Call) (g *compiledSet, octave float64, why Abstention) {
	switch {
	case !call.Coll.IsAsked():
		return nil, 0, AbstainColl
	case v.groups[call.Coll] == nil:
		return nil, 0, v.abstains[call.Coll]
	case !v.groups[call.Coll].sizes.Contains(call.Bytes):
		return nil, 0, AbstainSize
	}
	return v.groups[call.Coll], log2(call.Bytes), Decides
}

// Fastest returns the configuration that should be the fastest among the available cells; NoChoice if none is
// known. Unlike Choose, it does not compare it with NCCL's choice.
func (v *View) Fastest(call nccl.Call, costs nccl.Costs) Choice {
	g, octave, _ := v.find(call)
	if g == nil {
		return NoChoice
	}
	choice, _ := v.fastest(call, g, octave, costs)
	return choice
}

// fastest finds the curve with the least time, or says why there is none.
func (v *View) fastest(call nccl.Call, g *compiledSet, octave float64, costs nccl.Costs) (Choice, Abstention) {
	why, choice := AbstainSize, NoChoice
	least := math.Inf(1)
	noRing := costs.RingIsGuarded()
	for i := range g.curves {
		c := &g.curves[i]
		if v.offer(call.Coll, c, &costs, noRing) != BarNone {
			why = AbstainCells
			continue
		}
		t := c.at(octave)
		if score := t.LnMicros + doubt*t.Sigma; score < least { // not if it is NaN
			least, choice.Config, choice.Time = score, c.Config, t
		}
	}
	return choice, why
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
	BarNotOffered: "not available here",
	BarGuarded:    "NCCL avoids ring here, because FP8 sums would lose precision",
	BarChannels:   "NCCL does not check its channel count here",
	BarSize:       "not measured with it at such sizes",
}

func (b Bar) String() string { return bars[b] }

// offer says what keeps the configuration of a curve from being chosen.
func (v *View) offer(coll nccl.Coll, c *compiledCurve, costs *nccl.Costs, noRing bool) Bar {
	switch {
	case !costs.Offers(c.Cell):
		return BarNotOffered
	case noRing && c.Algo == nccl.AlgoRing:
		return BarGuarded
	case c.Channels > 0 && !nccl.ChannelsAreChecked(coll, c.Algo, v.nodes, v.uncheckedAllGather):
		return BarChannels
	}
	return BarNone
}

// curve returns the curve of a configuration; nil if it was not measured.
func (g *compiledSet) curve(of nccl.Config) *compiledCurve {
	for i := range g.curves {
		if c := &g.curves[i]; c.Config == of {
			return c
		}
	}
	return nil
}

// Predict returns the expected time of a configuration. It is unknown unless the configuration was measured at
// this size, or below and above it.
func (v *View) Predict(call nccl.Call, config nccl.Config) Time {
	if g, octave, _ := v.find(call); g != nil {
		if c := g.curve(config); c != nil {
			return c.at(octave)
		}
	}
	return unknownTime
}

// Abstention says why a model leaves a collective to NCCL. The zero value means that it does not.
type Abstention int8

const (
	Decides Abstention = iota
	AbstainColl
	AbstainComm
	AbstainOneNode
	AbstainPerNode
	AbstainNodes
	AbstainRelease
	AbstainSize
	AbstainCells
	AbstainDefault
	AbstainBest
	AbstainGain
)

var abstentions = [...]string{
	Decides:        "",
	AbstainColl:    "the collective was not measured",
	AbstainComm:    "the communicator was not measured",
	AbstainOneNode: "one node tells nothing about several, nor the reverse",
	AbstainPerNode: "another number of ranks per node was measured",
	AbstainNodes:   "another number of nodes was measured",
	AbstainRelease: "another release of NCCL was measured",
	AbstainSize:    "the size is outside those measured",
	AbstainCells:   "no configuration that is available here was measured",
	AbstainDefault: "what NCCL would choose here was not measured",
	AbstainBest:    "nothing is surely faster than NCCL's default",
	AbstainGain:    "the gain is within the model's uncertainty",
}

// Outside reports that nothing like the call was measured.
func (a Abstention) Outside() bool { return a >= AbstainColl && a <= AbstainSize }

func (a Abstention) String() string { return abstentions[a] }

// MarshalText is its sentence.
func (a Abstention) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// Candidate is a configuration that a model knows, and what keeps it from being chosen, if anything
// does.
type Candidate struct {
	nccl.Config
	Time
	Bar     Bar
	Floored bool // see Curve
}

// Candidates lists what Choose chooses from, the fastest first, then what may not be chosen. It is empty if
// the model does not know the collective or the size.
func (v *View) Candidates(call nccl.Call, costs nccl.Costs) []Candidate {
	g, octave, _ := v.find(call)
	if g == nil {
		return nil
	}
	noRing := costs.RingIsGuarded()
	all := make([]Candidate, len(g.curves))
	for i := range g.curves {
		c := &g.curves[i]
		bar := v.offer(call.Coll, c, &costs, noRing)
		all[i] = Candidate{Config: c.Config, Time: c.at(octave), Bar: bar, Floored: c.floored}
		if all[i].Bar == BarNone && all[i].Unknown() {
			all[i].Bar = BarSize
		}
	}
	slices.SortFunc(all, func(a, b Candidate) int {
		barred := func(c Candidate) int { return min(int(c.Bar), 1) }
		return cmp.Or(barred(a)-barred(b), cmp.Compare(unknownLast(a.LnMicros), unknownLast(b.LnMicros)),
			a.Compare(b.Config))
	})
	return all
}

func unknownLast(ln float64) float64 {
	if math.IsNaN(ln) {
		return math.Inf(1)
	}
	return ln
}

// Expect returns what the model expects of a configuration and of NCCL's choice. ok is false if it does not
// know one of both at this size.
func (v *View) Expect(call nccl.Call, costs nccl.Costs, config nccl.Config) (choice Choice, ok bool) {
	choice = Choice{Config: config, Time: v.Predict(call, config)}
	if choice.Unknown() {
		return NoChoice, false
	}
	choice.Default, _ = v.groups[call.Coll].defaultTime(call.Bytes, costs, config)
	choice.Needed = choice.needed()
	return choice, !choice.Default.Unknown()
}

// verifiedAt is what was verified at a size; nil: nothing was.
func (g *compiledSet) verifiedAt(bytes uint64) *Verified {
	bySize := func(v Verified, bytes uint64) int { return cmp.Compare(v.Bytes, bytes) }
	i, ok := slices.BinarySearchFunc(g.Verified, bytes, bySize)
	if !ok {
		return nil
	}
	return &g.Verified[i]
}

// verified decides by a verification. ok is false where it does not hold: NCCL does not offer what won, or its
// choice is not what was measured.
func (v *View) verified(
	call nccl.Call, g *compiledSet, won *Verified, costs nccl.Costs,
) (choice Choice, why Abstention, ok bool) {
	if pick, tied := costs.NCCLChoice(); tied || pick.Known() && !costs.AvailableOnly {
		then, _, known := g.defaultsAround(won.Bytes)
		if tied || !known || then.Known() && then.Cell != pick {
			return NoChoice, Decides, false
		}
	}
	sigma := g.Noise / math.Sqrt(float64(won.Repetitions))
	choice = Choice{
		Config: won.Config(), Time: Time{math.Log(won.Micros), sigma},
		Default:  Time{math.Log(won.DefaultMicros), sigma},
		Verified: true,
	}
	if !choice.Known() {
		return choice, AbstainBest, true
	}
	if c := g.curve(choice.Config); c == nil || v.offer(call.Coll, c, &costs, costs.RingIsGuarded()) != BarNone {
		return NoChoice, Decides, false
	}
	return choice, Decides, true
}

func (c *checker) verified(path string, all []Verified) {
	for i := range all {
		v := &all[i]
		path := fmt.Sprintf("%s.verified[%d]", path, i)
		c.isTrue(v.Bytes > 0 && (i == 0 || v.Bytes > all[i-1].Bytes), path+".bytes", "%d does not ascend", v.Bytes)
		c.isTrue(v.Micros > 0 && v.DefaultMicros >= v.Micros && v.DefaultMicros < 1e15, path,
			"%g us instead of %g (allowed: above 0, and no more than the default's)", v.Micros, v.DefaultMicros)
		c.isTrue(v.Repetitions >= 1, path+".repetitions", "%d (allowed: 1 or more)", v.Repetitions)
		c.channels(path, v.Channels)
		if v.Algo != "" || v.Proto != "" {
			c.label(path, v.Algo, v.Proto)
		}
	}
}
