package command

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
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

// walked replaces each directory with the files in and below it, without hidden ones. found holds the files that were
// found in this way.
func walked(args []string) (files []string, found map[string]bool, err error) {
	found = map[string]bool{}
	for _, arg := range args {
		if info, err := os.Stat(arg); err != nil || !info.IsDir() {
			files = append(files, arg) // opening it reports what is wrong
			continue
		}
		before := len(files)
		err := filepath.WalkDir(arg, func(path string, entry fs.DirEntry, err error) error {
			hidden := path != arg && strings.HasPrefix(entry.Name(), ".")
			switch {
			case err != nil:
				return err
			case hidden && entry.IsDir():
				return fs.SkipDir
			case !hidden && isRegular(path): // links to files, too
				files, found[path] = append(files, path), true
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
		if len(files) == before {
			return nil, nil, fmt.Errorf("there is no file in the directory %s", arg)
		}
	}
	return files, found, nil
}

func isRegular(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// headOf returns how a file begins; nil for what can be read only once.
func headOf(name string) []byte {
	if !isRegular(name) {
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

// fail records that a file cannot be read.
func (in *reader) fail(file string, err error) {
	if in.found[file] {
		in.notes = append(in.notes, bench.Note{File: "left out", Text: wording.Line(err.Error())})
	} else {
		in.failed = append(in.failed, err)
	}
}

// each reads files, and gives take what they hold and the SHA-256 of their content, unpacked.
func (in *reader) each(files []string, take func(r *bench.Result, digest string)) {
	for _, file := range files {
		in.shown.next(file)
		r, digest, err := in.measurements(file)
		switch {
		case errors.As(err, new(*bench.LogApart)):
			in.apart[file] = err
		case err != nil:
			in.fail(file, err)
		case in.known[digest] != "":
			in.notes = append(in.notes, bench.Note{File: r.File, Text: sameAs + in.known[digest] + ": read once"})
		case !in.anyway && r.Doubt() != nil:
			in.failed = append(in.failed,
				fmt.Errorf("%w\nthat is too much of %s to trust the rest (--force reads it anyway)", r.Doubt(), r.File))
		default:
			in.known[digest] = r.File
			take(r, digest)
		}
	}
}

const sameAs = "the same as "

// finish says what became of files that hold NCCL's log and no time, as all files have been read. It prints what there
// is to note of all, of many files the same once, and returns what keeps them from being read.
func (in *reader) finish(notes io.Writer) error {
	in.shown.Clear()
	for _, file := range slices.Sorted(maps.Keys(in.apart)) {
		if run := in.joined[file]; run != "" {
			in.notes = append(in.notes, bench.Note{File: file,
				Text: "NCCL's log of the run in " + run + ", read with it"})
		} else {
			in.fail(file, in.apart[file])
		}
	}
	text := func(n bench.Note) string {
		if strings.HasPrefix(n.Text, sameAs) { // each file that is left out is named
			return n.String()
		}
		return n.Text
	}
	for _, alike := range cli.Groups(in.notes, text) {
		if more := len(alike) - 1; more > 0 {
			alike[0].Text += fmt.Sprintf(" (and %s alike)", wording.Plural(more, "place"))
		}
		fmt.Fprintln(notes, alike[0])
	}
	return errors.Join(in.failed...)
}

// measurements reads one file, unpacked, and its digest.
func (in *reader) measurements(name string) (*bench.Result, string, error) {
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

// readSweeps pools the measurements of all files and lists why some times were rejected while reading, each reason with
// the place of the first. anyway takes files of which too little can be read, too. Those of found that are no
// measurements are left out. The pools of also get all of it, too.
func readSweeps(pool *fit.Pool, inputs *cli.Inputs, cmd *cobra.Command, files []string, found map[string]bool,
	anyway bool, also ...*fit.Pool) (*fit.Set, []model.Source, []fit.Refusal, error) {
	var sources []model.Source
	rejected := map[string]*fit.Refusal{} // by reason, without the place
	in := newReader(inputs, cmd, files, found, anyway)
	in.each(files, func(r *bench.Result, digest string) {
		for _, p := range append(also, pool) {
			p.Begin(r.File)
			for i := range r.Samples {
				p.Add(&r.Samples[i])
			}
			for _, m := range slices.Concat(r.Failed, r.NotOffered) {
				p.Fail(&m)
			}
		}
		in.notes = append(in.notes, r.Notes...)
		for _, rej := range r.Rejected {
			if rejected[rej.Reason] == nil {
				rejected[rej.Reason] = &fit.Refusal{Reason: rej.Reason + " (" + rej.First(r.File) + ")"}
			}
			rejected[rej.Reason].Rows += rej.Count
		}
		sources = append(sources, model.Source{Name: filepath.Base(r.File), SHA256: digest, Rows: len(r.Samples)})
	})
	if err := in.finish(cmd.ErrOrStderr()); err != nil {
		return nil, nil, nil, err
	}
	var refusals []fit.Refusal
	for _, reason := range slices.Sorted(maps.Keys(rejected)) {
		refusals = append(refusals, *rejected[reason])
	}
	return pool.Set(), sources, refusals, nil
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
