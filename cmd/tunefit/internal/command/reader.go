package command

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// reader reads files of measurements one after the other.
type reader struct {
	*cli.Inputs
	opts   bench.Options
	found  map[string]bool // files found in a directory, not all of which are logs
	anyway bool            // also take files of which many rows cannot be read
	shown  *reading        // how far it is
	// known are the files read so far, by digest. A file with the same content is left out: its measurements would look
	// like more repetitions.
	known  map[string]string
	notes  []bench.Note
	failed []error
	logs   map[string][]string // files that begin with NCCL's log, by its process
	joined map[string]string   // those that were read with the run that lists the process, and that run
	apart  map[string]error    // files with NCCL's log and no time
}

func newReader(inputs *cli.Inputs, cmd *cobra.Command, files []string, found map[string]bool, anyway bool) *reader {
	in := &reader{Inputs: inputs, found: found, anyway: anyway,
		shown: newReading(cmd.ErrOrStderr(), files), known: map[string]string{},
		logs: map[string][]string{}, joined: map[string]string{}, apart: map[string]error{}}
	for _, file := range files {
		if process := bench.ProcessOf(headOf(file)); process != "" {
			in.logs[process] = append(in.logs[process], file)
		}
	}
	return in
}

// headOf returns how a file begins; nil for what can be read only once.
func headOf(name string) []byte {
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil // reading it says why
	}
	defer file.Close()
	head := make([]byte, 1024)
	n, _ := file.Read(head)
	return head[:n]
}

// logOf returns the log of a process of the run in a file, where it is in another file.
func (in *reader) logOf(run string) func(process string) []byte {
	return func(process string) []byte {
		var all, beside []string
		text := map[string][]byte{}
		for _, file := range in.logs[process] {
			log, err := in.Text(file, cli.KindMeasurements)
			if err != nil {
				in.failed = append(in.failed, err)
			}
			if err != nil || bytes.Contains(log, []byte("# nThread ")) { // a run of its own
				continue
			}
			all, text[file] = append(all, file), log
			if filepath.Dir(file) == filepath.Dir(run) {
				beside = append(beside, file)
			}
		}
		if len(beside) == 1 {
			all = beside
		}
		switch len(all) {
		case 0:
			return nil
		case 1:
			in.joined[all[0]] = run
			return text[all[0]]
		}
		in.failed = append(in.failed, fmt.Errorf("%s: each of %s may be NCCL's log of its process %s (needed: one, in "+
			"the folder of the run)", cli.Called(run), strings.Join(all, ", "), process))
		return nil
	}
}

// end says what became of files that hold NCCL's log and no time. All files have been read then.
func (in *reader) end() {
	in.shown.Clear()
	for _, file := range slices.Sorted(maps.Keys(in.apart)) {
		if run := in.joined[file]; run != "" {
			in.notes = append(in.notes, bench.Note{File: file,
				Text: "NCCL's log of the run in " + run + ", read with it"})
		} else {
			in.fail(file, in.apart[file])
		}
	}
}

// fail records that a file cannot be read.
func (in *reader) fail(file string, err error) {
	if in.found[file] {
		in.notes = append(in.notes, bench.Note{File: "left out", Text: wording.Line(err.Error())})
	} else {
		in.failed = append(in.failed, err)
	}
}

// all reads files, and prints what there is to note of them.
func (in *reader) all(notes io.Writer, files []string) (results []*bench.Result, err error) {
	for _, file := range files {
		if r, _ := in.read(file); r != nil {
			results = append(results, r)
		}
	}
	return results, in.finish(notes)
}

// finish is end. It prints what there is to note of all files, and returns what keeps them from being read.
func (in *reader) finish(notes io.Writer) error {
	in.end()
	for _, n := range in.notes {
		fmt.Fprintln(notes, n)
	}
	return errors.Join(in.failed...)
}

// read returns the measurements of a file and its digest; nil if the file is left out or cannot be read.
func (in *reader) read(file string) (*bench.Result, string) {
	in.shown.next(file)
	r, digest, err := in.measurements(file)
	var apart *bench.LogApart
	switch {
	case errors.As(err, &apart):
		in.apart[file] = err
		return nil, ""
	case err != nil:
		in.fail(file, err)
		return nil, ""
	case r == nil:
		in.notes = append(in.notes, bench.Note{
			File: cli.Called(file), Text: "the same as " + in.known[digest] + ": read once",
		})
		return nil, ""
	}
	if err := r.Doubt(); err != nil && !in.anyway {
		in.failed = append(in.failed,
			fmt.Errorf("%w\nthat is too much of %s to trust the rest (--force reads it anyway)", err, r.File))
		return nil, ""
	}
	return r, digest
}

// measurements reads one file, unpacked, and its digest; nil without an error if the digest is known.
func (in *reader) measurements(name string) (*bench.Result, string, error) {
	// Samples may go straight to a pool, so the digest comes first. A pipe can be read only once, and goes without.
	if info, err := os.Stat(name); err == nil && info.Mode().IsRegular() {
		digest, err := digestOf(in.Inputs, name, cli.KindMeasurements)
		if err != nil {
			return nil, "", err
		}
		if in.known[digest] != "" {
			return nil, digest, nil
		}
		in.known[digest] = cli.Called(name)
	}
	file, err := in.Open(name, cli.KindMeasurements)
	if err != nil {
		return nil, "", err
	}
	defer file.Close()
	hash, opts := sha256.New(), in.opts
	opts.LogOf = in.logOf(name)
	r, err := bench.Read(io.TeeReader(file, io.MultiWriter(hash, in.shown.within(file))), cli.Called(name), opts)
	if err != nil {
		return nil, "", err
	}
	if _, err := io.Copy(hash, file); err != nil { // bytes that follow the last row
		return nil, "", err
	}
	return r, hex.EncodeToString(hash.Sum(nil)), nil
}

// digestOf is the SHA-256 of a file's content, unpacked.
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

// reading shows how far the reading of files is, by their bytes: one log may be as long as all others.
type reading struct {
	*cli.Progress
	files  int
	bytes  int64  // of all files
	file   string // that is being read; "": none yet
	size   int64  // its bytes
	done   int    // files before it
	before int64  // their bytes
}

func newReading(w io.Writer, files []string) *reading {
	r := &reading{Progress: cli.NewProgress(w), files: len(files)}
	for _, file := range files {
		r.bytes += sizeOf(file)
	}
	return r
}

// sizeOf is a file's size; 0 of what is no file.
func sizeOf(name string) int64 {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// next begins with a file, and ends with the one before it.
func (r *reading) next(file string) {
	if r.file != "" {
		r.done, r.before = r.done+1, r.before+r.size
	}
	r.file, r.size = file, sizeOf(file)
	r.at(0)
}

// at shows that the file has been read to a place.
func (r *reading) at(position int64) {
	r.Show(cli.Step{Done: r.done, Of: r.files, Unit: "files",
		Share: float64(r.before+min(position, r.size)) / float64(max(1, r.bytes)),
		Now:   "reading " + filepath.Base(r.file)})
}

// within returns a writer for what is read of the file, which shows how far that is.
func (r *reading) within(in interface{ Position() int64 }) io.Writer {
	return onWrite(func() { r.at(in.Position()) })
}

// onWrite is called with each write.
type onWrite func()

func (f onWrite) Write(text []byte) (int, error) {
	f()
	return len(text), nil
}
