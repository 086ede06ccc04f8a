package model

import (
	"math"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// Topology is the machine that a model was measured on.
type Topology struct {
	Fingerprint string       `json:"fingerprint"` // of topo.Fingerprint
	Summary     topo.Summary `json:"summary"`
}

// Machine is the kind of machine that a process runs on.
type Machine struct {
	Fingerprint topo.Fingerprint
	Summary     topo.Summary
}

// Standing is how the machine of a process relates to the one that a model was measured on.
type Standing int8

const (
	AnyMachine       Standing = iota // the model names none and is used by nodes and ranks alone
	SameMachine                      // used as it is
	SimilarMachine                   // the same shape at other speeds, and the model is scaled
	UnscaledMachine                  // the same, and the model says nothing of scaling: silent
	DifferentMachine                 // silent
	UnknownMachine                   // this machine's topology is not known: silent
)

var standings = [...]string{
	AnyMachine:       "names no machine, nodes and ranks alone tell whether it is used",
	SameMachine:      "was measured on this kind of machine",
	SimilarMachine:   "was measured on a similar machine, its physics is scaled to the bandwidths and latencies here",
	UnscaledMachine:  "was measured on a similar machine with other bandwidths and may not be scaled; it is not used",
	DifferentMachine: "was measured on another kind of machine; it is not used",
	UnknownMachine:   "names the machine it was measured on, and this one is not known; it is not used",
}

// String completes "the model ...".
func (s Standing) String() string { return standings[s] }

// Silent reports that a model is not used for its machine's sake.
func (s Standing) Silent() bool { return s >= UnscaledMachine }

// NeedsTopology reports whether the machine has to be known to use the model.
func (m *Model) NeedsTopology() bool { return m.File.Provenance.Topology != nil }

// On returns the model as it holds on a machine; nil where it does not.
func (m *Model) On(here *Machine) (*Model, Standing) {
	home := m.File.Provenance.Topology
	switch {
	case home == nil:
		return m, AnyMachine
	case here == nil:
		return nil, UnknownMachine
	case here.Fingerprint.SameMachine(m.home):
		return m, SameMachine
	case !here.Fingerprint.Similar(m.home):
		return nil, DifferentMachine
	case !m.File.Scales:
		return nil, UnscaledMachine
	}
	if s := m.scaled(&home.Summary, &here.Summary); s != nil {
		return s, SimilarMachine
	}
	return nil, DifferentMachine
}

func (c *checker) topology(m *Model) {
	const path = "provenance.topology"
	home := m.File.Provenance.Topology
	if home == nil {
		c.isTrue(!m.File.Scales, "scales", "true, and there is no %s to scale from", path)
		return
	}
	var err error
	m.home, err = topo.ParseFingerprint(home.Fingerprint)
	c.isTrue(err == nil, path+".fingerprint", "%v", err)
	for _, f := range []struct {
		name  string
		value float64
	}{{"intra_bw", home.Summary.IntraBW}, {"net_bw", home.Summary.NetBW}, {"net_latency", home.Summary.NetLatency}} {
		c.isTrue(f.value >= 0 && f.value <= math.MaxFloat32, path+".summary."+f.name, "%g (allowed: 0 or more)", f.value)
	}
}
