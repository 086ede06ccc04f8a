package command

import (
	"io"
	"os"
	"path/filepath"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
)

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
