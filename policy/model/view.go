package model

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// View is a model for one communicator.
type View struct {
	// uncheckedAllGather says that NCCL may use the channel count of an AllGather without checking it. Then no
	// configuration with a count is chosen for it.
	uncheckedAllGather bool

	nodes    int // of the communicator
	groups   [nccl.NumColls]*compiledSet
	abstains [nccl.NumColls]Abstention // why there is no group
}

// For narrows a model to one communicator of the NCCL that was measured.
func (m *Model) For(comm nccl.Comm) *View {
	v := &View{nodes: comm.Nodes}
	for coll := range nccl.Coll(nccl.NumColls) {
		v.groups[coll] = m.groups[Key{coll, comm}]
		if v.groups[coll] == nil {
			v.abstains[coll] = m.whyNot(Key{coll, comm})
		}
	}
	return v
}

// whyNot says why nothing that was measured answers for a group: the reason of what came closest.
func (m *Model) whyNot(to Key) Abstention {
	why := AbstainColl
	for key := range m.groups {
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
		}
		why = max(why, reason)
	}
	return why
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

// Releases are those that a model and rows made of the measurements are for: the minor versions that were measured and
// those between them. They are all releases where the measurements do not tell theirs, or are RCCL's.
func (p *Provenance) Releases() nccl.Releases {
	oldest, newest, ok := nccl.MeasuredWith(p.NCCL)
	if !ok {
		return nccl.AnyRelease
	}
	return nccl.Releases{Min: nccl.MinorOf(oldest).Min, Max: nccl.MinorOf(newest).Max}
}

// Releases are those that the model is for.
func (m *Model) Releases() nccl.Releases { return m.releases }

// In narrows a model to one communicator of an NCCL; the zero value of release is one that is not known. The model
// abstains where that NCCL may be of a release that it is not for.
func (m *Model) In(release nccl.Releases, comm nccl.Comm) *View {
	v := m.For(comm)
	v.uncheckedAllGather = release.MayUseUncheckedAllGather()
	for coll, g := range v.groups {
		if g != nil && !m.releases.Contains(release) {
			v.groups[coll], v.abstains[coll] = nil, AbstainRelease
		}
	}
	return v
}

// Standing is how the machine of a process relates to the one that a model was measured on.
type Standing int8

const (
	AnyMachine       Standing = iota // the model names none and is used by nodes and ranks alone
	SameMachine                      // used as it is
	DifferentMachine                 // it abstains
	UnknownMachine                   // this machine's topology is not known: it abstains
)

var standings = [...]string{
	AnyMachine:       "names no machine, nodes and ranks alone tell whether it is used",
	SameMachine:      "was measured on this kind of machine",
	DifferentMachine: "was measured on another kind of machine; it is not used",
	UnknownMachine:   "names the machine it was measured on, and this one is not known; it is not used",
}

// String completes "the model ...".
func (s Standing) String() string { return standings[s] }

// Abstains reports that a model is not used for its machine's sake.
func (s Standing) Abstains() bool { return s >= DifferentMachine }

// NeedsTopology reports whether the machine has to be known to use the model.
func (m *Model) NeedsTopology() bool { return m.File.Provenance.Topology != nil }

// On returns the model where it holds on a machine; nil where it does not.
func (m *Model) On(here *topo.Machine) (*Model, Standing) {
	switch {
	case !m.NeedsTopology():
		return m, AnyMachine
	case here == nil:
		return nil, UnknownMachine
	case here.Fingerprint != m.File.Provenance.Topology.Fingerprint:
		return nil, DifferentMachine
	}
	return m, SameMachine
}

func (c *checker) topology(m *Model) {
	if home := m.File.Provenance.Topology; home != nil {
		_, err := topo.ParseFingerprint(string(home.Fingerprint))
		c.isTrue(err == nil, "provenance.topology.fingerprint", "%v", err)
	}
}

// MeasuredUnder returns the variables that jobs need, as they were measured under them.
func (m *Model) MeasuredUnder() (variables []string) {
	for i := range m.File.CurveSets {
		variables = append(variables, m.File.CurveSets[i].Variables)
	}
	return variables
}

// Floors returns what a job must set so that it has the channels that the model chooses.
func (m *Model) Floors() (floors nccl.Floors) {
	for key, g := range m.groups {
		if !slices.ContainsFunc(g.curves, func(c compiledCurve) bool { return c.floored }) {
			continue
		}
		view := m.For(key.Comm)
		for _, b := range g.Sizes() {
			choice, why := view.Choose(nccl.Call{Coll: key.Coll, Bytes: b}, nccl.Everything())
			if c := g.curve(choice.Config); why == Decides && c != nil && c.floored {
				floors.Add(choice.Algo, choice.Channels)
			}
		}
	}
	return floors
}
