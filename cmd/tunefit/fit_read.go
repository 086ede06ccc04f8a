package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/costs"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// readSweeps pools the measurements of all files and lists why some times were
// rejected while reading. anyway takes files of which too little can be read, too.
func readSweeps(cmd *cobra.Command, files []string, anyway bool) (*fit.Set, []model.Source, []fit.Refusal, error) {
	pool := fit.NewPool()
	var sources []model.Source
	rejected := map[string]int{}
	in := newReader(cmd, files, nil, anyway)
	in.opts.Each = pool.Add
	for _, name := range files {
		pool.Begin(name)
		r, digest := in.read(name)
		if r == nil {
			continue
		}
		for i := range r.Failed {
			pool.Fail(&r.Failed[i])
		}
		in.notes = append(in.notes, r.Notes...)
		for _, rej := range r.Rejected {
			rejected[rej.Reason] += rej.Count
		}
		sources = append(sources, model.Source{Name: filepath.Base(name), SHA256: digest, Rows: r.Kept})
	}
	in.progress.End()
	for _, n := range in.notes {
		fmt.Fprintln(cmd.ErrOrStderr(), n)
	}
	if len(in.failed) > 0 {
		return nil, nil, nil, fmt.Errorf("%w\nnothing was written", errors.Join(in.failed...))
	}
	var refusals []fit.Refusal
	for reason, n := range rejected {
		refusals = append(refusals, fit.Refusal{Reason: reason, Rows: n})
	}
	slices.SortFunc(refusals, func(a, b fit.Refusal) int { return strings.Compare(a.Reason, b.Reason) })
	return pool.Set(), sources, refusals, nil
}

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
	t := &model.Topology{Fingerprint: string(sys.Fingerprint())}
	if t.Summary, err = sys.Summarize(topo.SettingsFromEnv(os.Getenv)); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return t, nil
}
