package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/termsafe"
)

// reader reads files of measurements one after the other.
type reader struct {
	*cli.Inputs
	opts     bench.Options
	found    map[string]bool // files in a directory that was named, not all of which are logs
	anyway   bool            // takes files of which too little can be read, too
	progress *cli.Progress
	// known are the files that were read, by digest. One that holds the same is left out: the same measurements twice
	// look like more repetitions than there are.
	known  map[string]string
	notes  []bench.Note
	failed []error
}

func newReader(inputs *cli.Inputs, cmd *cobra.Command, files []string, found map[string]bool, anyway bool) *reader {
	return &reader{Inputs: inputs, found: found, anyway: anyway,
		progress: cli.NewProgress(cmd.ErrOrStderr(), "reading", cli.SizeOf(files)), known: map[string]string{}}
}

// read returns what a file holds and its digest; nil where it is left out, or has failed.
func (in *reader) read(file string) (*bench.Result, string) {
	in.progress.TurnTo(filepath.Base(file))
	r, digest, err := in.measurements(file)
	switch {
	case err != nil && in.found[file]:
		in.notes = append(in.notes, bench.Note{File: "left out", Text: termsafe.Line(err.Error())})
		return nil, ""
	case err != nil:
		in.failed = append(in.failed, err)
		return nil, ""
	case r == nil:
		in.notes = append(in.notes, bench.Note{
			File: cli.Called(file), Text: "the same as " + in.known[digest] + ": read once",
		})
		return nil, ""
	}
	if err := r.Doubt(); err != nil && !in.anyway {
		in.failed = append(in.failed,
			fmt.Errorf("%w\nthat is too much of %s to trust what is left (--force reads it all the same)", err, r.File))
		return nil, ""
	}
	return r, digest
}

// sweepKinds are what measurements are read from.
var sweepKinds = []cli.Kind{cli.KindSweep, cli.KindLog, cli.KindResults}

// measurements reads one file, unpacked, and digests it; nil without an error where the digest is known.
func (in *reader) measurements(name string) (*bench.Result, string, error) {
	// Samples may go straight to a pool, so the digest has to come first, but for what can be read only once.
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
		digest, err := digestOf(in.Inputs, name, sweepKinds...)
		if err != nil {
			return nil, "", err
		}
		if in.known[digest] != "" {
			in.progress.Add(info.Size())
			return nil, digest, nil
		}
		in.known[digest] = cli.Called(name)
	}
	file, err := in.Open(name, sweepKinds...)
	if err != nil {
		return nil, "", err
	}
	defer file.Close()
	hash := sha256.New()
	r, err := bench.Read(io.TeeReader(in.progress.Reader(file), hash), cli.Called(name), in.opts)
	if err != nil {
		return nil, "", err
	}
	if _, err := io.Copy(hash, file); err != nil { // what the reader left behind the last row
		return nil, "", err
	}
	return r, hex.EncodeToString(hash.Sum(nil)), nil
}

// digestOf is the SHA-256 of what a file of some kinds holds, unpacked.
func digestOf(inputs *cli.Inputs, name string, kinds ...cli.Kind) (string, error) {
	in, err := inputs.Open(name, kinds...)
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
