package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/atomicfile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/termsafe"
)

// MayWrite refuses an output that is there already, or that is one of the inputs, under whatever name: what is read
// would be lost, and --force cannot mean that. A command asks before it does any work. An empty name is no file.
func MayWrite(name string, force bool, inputs ...string) error {
	if name == StandardName {
		return Usagef("- as an output is no file (needed: a name; what goes to standard output does so without an " +
			"option)")
	}
	for _, in := range inputs {
		if name != "" && in != "" && in != StandardName && SameFile(name, in) {
			return fmt.Errorf("%s is read, and would be overwritten as %s (needed: another name for the output; "+
				"--force does not change that)", in, name)
		}
	}
	if name == "" || force {
		return nil
	}
	switch _, err := os.Lstat(name); {
	case err == nil && IsStream(name): // nothing is lost
		return nil
	case err == nil:
		return fmt.Errorf("%s is there already (--force overwrites it)", name)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return err
	}
}

// IsStream reports whether a name is that of a pipe or a device, which is no file to overwrite or to read twice.
func IsStream(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.Mode().IsRegular() && !info.IsDir()
}

// SameFile reports whether two paths lead to one file.
func SameFile(a, b string) bool {
	if filepath.Clean(a) == filepath.Clean(b) {
		return true
	}
	ia, err1 := os.Stat(a)
	ib, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(ia, ib)
}

// WriteWhole makes a file whole or not at all, see atomicfile.WriteDurable. Without force it overwrites nothing, not
// even what somebody else has made meanwhile.
func WriteWhole(name string, force bool, write func(io.Writer) error) error {
	return atomicfile.WriteDurable(name, func(w io.Writer) error {
		return errors.Join(write(w), MayWrite(name, force))
	})
}

// WriteOrPrint is WriteWhole, to the standard output without a name.
func WriteOrPrint(stdout io.Writer, name string, force bool, write func(io.Writer) error) error {
	if name == "" {
		return write(stdout)
	}
	return WriteWhole(name, force, write)
}

// Notes prints what a person should know of an answer.
func Notes(w io.Writer, notes ...string) {
	for _, note := range notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
}

// Output is where commands print. It keeps the first error, so that none of them has to
// look at every line, and prints nothing after it. Where the reader of a pipe has left, as head does, that is no
// error: a command still writes its files and ends with its own exit code.
type Output struct {
	io.Writer
	err error
}

func (o *Output) Write(text []byte) (n int, err error) {
	if o.err == nil {
		n, o.err = o.Writer.Write(text)
	}
	if errors.Is(o.err, syscall.EPIPE) {
		o.Writer, o.err = io.Discard, nil
		return len(text), nil
	}
	return n, o.err
}

// Complete returns the error of a command, or that its output is not complete where that
// is why it failed, or where it has nothing worse to say.
func (o *Output) Complete(err error) error {
	var silent exitError
	if o.err != nil && (err == nil || errors.Is(err, o.err) || errors.As(err, &silent) && silent.error == nil) {
		return fmt.Errorf("the output is not complete: %w", o.err)
	}
	return err
}

// Printable keeps what others have written, into files or into their records, from
// steering the terminal of whoever reads it, who may be root.
type Printable struct{ io.Writer }

func (p Printable) Write(text []byte) (int, error) {
	if _, err := io.WriteString(p.Writer, termsafe.Text(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// IsTerminal reports whether a person looks at w.
func IsTerminal(w io.Writer) bool {
	if out, ok := w.(*Output); ok {
		w = out.Writer
	}
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&fs.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
