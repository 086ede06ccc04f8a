package policy

import "github.com/nccl-tuner-go/nccl-tuner-go/topo"

// ModelTopology is the machine that a model was measured on.
type ModelTopology struct {
	Fingerprint string       `json:"fingerprint"` // of topo.Fingerprint
	Summary     topo.Summary `json:"summary"`
}
