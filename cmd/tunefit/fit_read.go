package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
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
	var failed []error
	rejected := map[string]int{}
	var notes []bench.Note
	progress := cli.NewProgress(cmd.ErrOrStderr(), "reading", cli.SizeOf(files))
	var known map[string]string
	if len(files) > 1 {
		known = map[string]string{}
	}
	for _, name := range files {
		pool.Begin(name)
		r, digest, err := readNamed(name, false, anyway, progress, bench.Options{Each: pool.Add}, known, &notes)
		if err != nil {
			failed = append(failed, err)
		}
		if r == nil {
			continue
		}
		for i := range r.Failed {
			pool.Fail(&r.Failed[i])
		}
		notes = append(notes, r.Notes...)
		for _, rej := range r.Rejected {
			rejected[rej.Reason] += rej.Count
		}
		sources = append(sources, model.Source{Name: filepath.Base(name), SHA256: digest, Rows: r.Kept})
	}
	progress.End()
	for _, n := range notes {
		fmt.Fprintln(cmd.ErrOrStderr(), n)
	}
	if len(failed) > 0 {
		return nil, nil, nil, fmt.Errorf("%w\nnothing was written", errors.Join(failed...))
	}
	var refusals []fit.Refusal
	for reason, n := range rejected {
		refusals = append(refusals, fit.Refusal{Reason: reason, Rows: n})
	}
	slices.SortFunc(refusals, func(a, b fit.Refusal) int { return strings.Compare(a.Reason, b.Reason) })
	return pool.Set(), sources, refusals, nil
}

// sweepKinds are what measurements are read from.
var sweepKinds = []cli.Kind{cli.KindSweep, cli.KindLog, cli.KindResults}

// readMeasurements reads one file, unpacked, and digests it. A file whose digest is
// known is skipped: the same measurements twice look like more repetitions than there
// are.
func readMeasurements(name string, p *cli.Progress, opts bench.Options, known map[string]string) (r *bench.Result, digest, same string, err error) {
	// Samples may go straight to a pool, so the digest has to come first, but for one
	// file alone and for what can be read only once.
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() && known != nil {
		if digest, err = digestOf(name, sweepKinds...); err != nil {
			return nil, "", "", err
		}
		if first, ok := known[digest]; ok {
			p.Add(info.Size())
			return nil, digest, first, nil
		}
		known[digest] = name
	}
	in, err := cli.OpenInput(name, sweepKinds...)
	if err != nil {
		return nil, "", "", err
	}
	defer in.Close()
	hash := sha256.New()
	called := name
	if name == cli.StandardName {
		called = "stdin"
	}
	r, err = bench.Read(io.TeeReader(p.Reader(in), hash), called, opts)
	if err != nil {
		return nil, "", "", err
	}
	if _, err := io.Copy(hash, in); err != nil { // what the reader left behind the last row
		return nil, "", "", err
	}
	return r, hex.EncodeToString(hash.Sum(nil)), "", nil
}

// digestOf is the SHA-256 of what a file of some kinds holds, unpacked.
func digestOf(name string, kinds ...cli.Kind) (string, error) {
	in, err := cli.OpenInput(name, kinds...)
	if err != nil {
		return "", err
	}
	defer in.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, in); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
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
