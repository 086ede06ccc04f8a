package model

import (
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// View is a model for one communicator.
type View struct {
	// uncheckedAllGather says that NCCL may use the channel count of an AllGather without checking it. Then no
	// configuration with a count is chosen for it.
	uncheckedAllGather bool

	nodes    int // of the communicator
	groups   [nccl.NumColls]*compiledSet
	abstains [nccl.NumColls]Abstention // why there is no group
	// farther is the gain in ln(us) that a group must have in addition if it was measured on fewer nodes; else
	// 0.
	farther [nccl.NumColls]float64
}

// For narrows a model to one communicator of the NCCL that was measured.
func (m *Model) For(comm nccl.Comm) *View {
	v := &View{nodes: comm.Nodes}
	for coll := range nccl.Coll(nccl.NumColls) {
		v.groups[coll] = m.groups[Key{coll, comm}]
		if v.groups[coll] == nil {
			v.groups[coll], v.abstains[coll] = m.nearest(Key{coll, comm})
		}
		if g := v.groups[coll]; g != nil && g.Nodes != comm.Nodes {
			spread := max(leastSpread, spreadPerDoubling*math.Log2(float64(comm.Nodes)/float64(g.Nodes)))
			v.farther[coll] = spreadsOfGain * spread
		}
	}
	return v
}

// nearest finds a group that may answer for one that was not measured, or says why none may.
func (m *Model) nearest(to Key) (*compiledSet, Abstention) {
	why := AbstainColl
	var best *compiledSet
	for key, g := range m.groups {
		if key.Coll != to.Coll {
			continue
		}
		reason := AbstainNodes
		switch {
		case to.Ranks < 1 || to.Nodes < 1:
			reason = AbstainComm
		case (key.Nodes == 1) != (to.Nodes == 1):
			reason = AbstainOneNode
		case key.Ranks*to.Nodes != to.Ranks*key.Nodes:
			reason = AbstainPerNode
		case key.Nodes < to.Nodes && to.Nodes <= m.File.MaxNodes && (best == nil || key.Nodes > best.Nodes):
			best = g
		}
		why = max(why, reason)
	}
	if best != nil {
		return best, Decides
	}
	return nil, why
}

// Empty reports that the model has no answer for this communicator at all.
func (v *View) Empty() bool {
	return !slices.ContainsFunc(v.groups[:], func(g *compiledSet) bool { return g != nil })
}

// Abstention says why an empty view is empty: the reason of the collective that came closest to an answer.
func (v *View) Abstention() Abstention { return slices.Max(v.abstains[:]) }

// NamesChannels reports whether configurations of the collective have a channel count.
func (v *View) NamesChannels(coll nccl.Coll) bool {
	g := v.groups[coll]
	return g != nil && slices.ContainsFunc(g.curves, func(c compiledCurve) bool { return c.Channels > 0 })
}
