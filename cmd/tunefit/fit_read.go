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
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// readSweeps pools the measurements of all files and lists why some times were
// rejected while reading.
func readSweeps(cmd *cobra.Command, files []string) (*fit.Set, []policy.ModelSource, []fit.Refusal, error) {
	pool := fit.NewPool()
	var sources []policy.ModelSource
	var failed []error
	rejected := map[string]int{}
	var notes []bench.Note
	progress := newProgress(cmd.ErrOrStderr(), "reading", sizeOf(files))
	for _, name := range files {
		progress.turnTo(filepath.Base(name))
		source, err := readSweep(pool, name, progress, rejected, &notes)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		sources = append(sources, source)
	}
	progress.end()
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

func readSweep(pool *fit.Pool, name string, p *progress, rejected map[string]int, notes *[]bench.Note) (policy.ModelSource, error) {
	in, err := os.Open(name)
	if err != nil {
		return policy.ModelSource{}, err
	}
	defer in.Close()
	digest := sha256.New()
	r, err := bench.Read(io.TeeReader(p.reader(in), digest), name, bench.Options{Each: pool.Add})
	if err != nil {
		return policy.ModelSource{}, err
	}
	if _, err := io.Copy(digest, in); err != nil { // what the reader left behind the last row
		return policy.ModelSource{}, err
	}
	*notes = append(*notes, r.Notes...)
	for _, rej := range r.Rejected {
		rejected[rej.Reason] += rej.Count
	}
	return policy.ModelSource{Name: filepath.Base(name), SHA256: hex.EncodeToString(digest.Sum(nil)), Rows: r.Kept}, nil
}
