package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

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
