package fit

import (
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

const (
	// carriedGain in ln(us) is what a row must gain on the nodes that were measured to be written for more nodes. On
	// grids of 2 to 5 nodes no row of so much gain was slower than NCCL's choice on up to twice the nodes; of those
	// that gain 3 %, one in four was.
	carriedGain = 0.15
	// mostTimes the nodes that were measured is how far a row is carried.
	mostTimes = 2
)

// CarriedGain is the least gain of a row for more nodes than were measured, as a share of the default's time.
var CarriedGain = 1 - math.Exp(-carriedGain)

// CarriedNodes are the least and the most nodes that MoreNodes may have rows for; most is 0 if there are none, since
// one node tells nothing about several.
func CarriedNodes(file *model.File) (least, most int) {
	for i := range file.CurveSets {
		if g := &file.CurveSets[i]; carries(file, g) {
			if most == 0 || g.Nodes+1 < least {
				least = g.Nodes + 1
			}
			most = max(most, mostTimes*g.Nodes)
		}
	}
	return least, most
}

// MayCarry reports whether MoreNodes may have rows for a communicator.
func MayCarry(file *model.File, to Key) bool {
	return slices.ContainsFunc(file.CurveSets, func(g model.CurveSet) bool {
		return g.Coll == to.Coll.String() && g.Ranks*to.Nodes == to.Ranks*g.Nodes && g.Nodes < to.Nodes &&
			to.Nodes <= mostTimes*g.Nodes && carries(file, &g)
	})
}

// MoreNodes returns rows for each number of nodes up to maxNodes that was not measured: those of the most nodes that
// were, if these are several and half of it at least, where they gain more than carriedGain at each size. The best
// count of channels of ring falls as ranks rise: it gets fewer, by the square root of the ratio of nodes, rounded down
// to a count that was measured.
func MoreNodes(m *model.Model, maxNodes int) (rows []Row) {
	for i := range m.File.CurveSets {
		g := &m.File.CurveSets[i]
		if !carries(m.File, g) || g.Nodes >= maxNodes {
			continue
		}
		measured := groupRows(m, g, carriedGain)
		for nodes := g.Nodes + 1; nodes <= min(maxNodes, mostTimes*g.Nodes); nodes++ {
			for _, r := range measured {
				r.From, r.Measured = g.Nodes, r.Config
				r.Comm = nccl.Comm{Nodes: nodes, Ranks: nodes * (g.Ranks / g.Nodes)}
				if r.Algo == nccl.AlgoRing && r.Channels > 0 {
					r.Channels, r.Floored = fewerChannels(g, r.Config, nodes)
				}
				rows = append(rows, r)
			}
		}
	}
	return rows
}

// carries reports whether a group has the most nodes, two or more, of its collective and number of ranks per node.
func carries(file *model.File, g *model.CurveSet) bool {
	return g.Nodes > 1 && g.Ranks%g.Nodes == 0 && len(g.Default) > 0 &&
		!slices.ContainsFunc(file.CurveSets, func(o model.CurveSet) bool {
			return o.Coll == g.Coll && o.Nodes > g.Nodes && o.Ranks*g.Nodes == g.Ranks*o.Nodes
		})
}

// fewerChannels scales the channels of a configuration to more nodes, and says whether so many have a floor.
func fewerChannels(g *model.CurveSet, c nccl.Config, nodes int) (channels int, floored bool) {
	scaled := float64(c.Channels) * math.Sqrt(float64(g.Nodes)/float64(nodes))
	for _, curve := range g.Curves {
		n := curve.Config().Channels
		if curve.Config().Cell != c.Cell || n == 0 {
			continue
		}
		// The least count that was measured stands for all below it.
		if least := channels == 0; least || float64(channels) > scaled && n < channels ||
			float64(n) <= scaled && n > channels {
			channels, floored = n, curve.Floored
		}
	}
	return channels, floored
}
