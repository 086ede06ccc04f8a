package main

import (
	"fmt"
	"os"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/costs"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// readModelTopology says what machine a topology file is of, for a model's
// provenance; nil without a file. NCCL's variables that change paths count as they
// do in NCCL.
func readModelTopology(file string) (*model.Topology, error) {
	if file == "" {
		return nil, nil
	}
	doc, err := costs.ReadTopology(file)
	if err != nil {
		return nil, err
	}
	sys, err := topo.Build(doc, costs.BuildOptions())
	if err != nil {
		return nil, err
	}
	t := &model.Topology{Fingerprint: sys.Fingerprint().String()}
	if t.Summary, err = sys.Summarize(topo.SettingsFromEnv(os.Getenv)); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return t, nil
}
