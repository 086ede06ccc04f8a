package model

import "github.com/nccl-tuner-go/nccl-tuner-go/topo"

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
func (m *Model) On(here *Machine) (*Model, Standing) {
	switch {
	case !m.NeedsTopology():
		return m, AnyMachine
	case here == nil:
		return nil, UnknownMachine
	case here.Fingerprint != m.home:
		return nil, DifferentMachine
	}
	return m, SameMachine
}

func (c *checker) topology(m *Model) {
	if home := m.File.Provenance.Topology; home != nil {
		var err error
		m.home, err = topo.ParseFingerprint(home.Fingerprint)
		c.isTrue(err == nil, "provenance.topology.fingerprint", "%v", err)
	}
}
