package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// compiledVerdict is what won at a size where the default and the best candidates were measured once more.
type compiledVerdict struct {
	*Verified
	algo  nccl.Algo // -1: the default
	proto nccl.Proto
}

// verdict of a size that was verified.
func (g *compiledGroup) verdict(bytes uint64) (v compiledVerdict, ok bool) {
	i, ok := slices.BinarySearchFunc(g.verdicts, bytes, func(v compiledVerdict, bytes uint64) int { return cmp.Compare(v.Bytes, bytes) })
	if !ok {
		return v, false
	}
	return g.verdicts[i], true
}

// verified decides by a verdict. ok is false where it does not hold: where NCCL does not offer what won, or
// would choose something else by itself than what was measured.
func (v *View) verified(coll nccl.Coll, g *compiledGroup, won compiledVerdict, costs nccl.Costs) (choice Choice, why Abstention, ok bool) {
	if pickAlgo, pickProto, tied := costs.Own(); tied || pickAlgo >= 0 && !costs.AvailableOnly {
		own, _, known := g.defaultsAround(won.Bytes)
		if tied || !known || own.Algo >= 0 && (own.Algo != pickAlgo || own.Proto != pickProto) {
			return NoChoice, Decides, false
		}
	}
	sigma := g.file.Noise / math.Sqrt(float64(won.Repetitions))
	choice = Choice{
		Config: nccl.Config{Cell: nccl.Cell{Algo: won.algo, Proto: won.proto}, Channels: won.Channels}, LnMicros: math.Log(won.Micros), Sigma: sigma, DefaultLnMicros: math.Log(won.DefaultMicros), DefaultSigma: sigma, Verified: true,
	}
	if won.algo < 0 {
		return choice, AbstainBest, true
	}
	if c := g.curve(won.algo, won.proto, won.Channels); c == nil || v.offer(coll, c, &costs, costs.RingIsGuarded()) != BarNone {
		return NoChoice, Decides, false
	}
	return choice, Decides, true
}

func (c *checker) verdicts(path string, g *compiledGroup, all []Verified) {
	for i := range all {
		v := &all[i]
		path := fmt.Sprintf("%s.verified[%d]", path, i)
		c.isTrue(v.Bytes > 0 && (i == 0 || v.Bytes > all[i-1].Bytes), path+".bytes", "%d does not ascend", v.Bytes)
		c.isTrue(v.Micros > 0 && v.DefaultMicros >= v.Micros && v.DefaultMicros < 1e15, path, "%g us instead of %g (allowed: above 0, and no more than the default's)", v.Micros, v.DefaultMicros)
		c.isTrue(v.Repetitions >= 1, path+".repetitions", "%d (allowed: 1 or more)", v.Repetitions)
		c.channels(path, v.Channels)
		won := compiledVerdict{v, -1, -1}
		if v.Algo != "" || v.Proto != "" {
			won.algo, won.proto = c.label(path, v.Algo, v.Proto)
		}
		g.verdicts = append(g.verdicts, won)
	}
}
