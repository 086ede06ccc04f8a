package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/termsafe"
)

// MayWrite refuses a file that is there already, so that a command can stop
// before it does any work. An empty name is no file.
func MayWrite(name string, force bool) error {
	if name == StandardName {
		return Usagef("- as an output is no file (needed: a name; what goes to standard output does so without an option)")
	}
	if name == "" || force {
		return nil
	}
	switch _, err := os.Lstat(name); {
	case err == nil:
		return fmt.Errorf("%s is there already (--force overwrites it)", name)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return err
	}
}

// NotInput refuses an output that is one of the inputs, under whatever name: what is
// read would be lost, and asking to overwrite cannot mean that.
func NotInput(output string, inputs ...string) error {
	for _, in := range inputs {
		if output != "" && in != "" && in != StandardName && SameFile(output, in) {
			return fmt.Errorf("%s is read, and would be overwritten as %s (needed: another name for the output; --force does not change that)", in, output)
		}
	}
	return nil
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

// WriteWhole makes a file whole or not at all, also in a crash: who reads it finds what
// it held before or all that is new. Owner and permissions stay.
func WriteWhole(name string, force bool, write func(io.Writer) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if at := (*fs.PathError)(nil); errors.As(err, &at) { // the user has named no temporary file
		return &fs.PathError{Op: "write", Path: name, Err: at.Err}
	} else if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(file.Name())
		}
	}()
	if err := write(file); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := errors.Join(ownAs(file, name), file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := MayWrite(name, force); err != nil { // somebody else may have made it meanwhile
		return err
	}
	if err := os.Rename(file.Name(), name); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(name))
	if err == nil {
		err = dir.Sync()
		dir.Close()
	}
	if err != nil && !errors.Is(err, syscall.EINVAL) { // some file systems have no such thing
		return fmt.Errorf("%s is written, but after a crash the one before may be back: %w", name, err)
	}
	return nil
}

// ownAs gives a new file the owner and permissions of the one that it replaces.
func ownAs(file *os.File, name string) error {
	old, err := os.Stat(name)
	if err != nil || !old.Mode().IsRegular() {
		return file.Chmod(0o644) // CreateTemp's mode is for secrets
	}
	if st, ok := old.Sys().(*syscall.Stat_t); ok && (int(st.Uid) != os.Geteuid() || int(st.Gid) != os.Getegid()) {
		if err := file.Chown(int(st.Uid), int(st.Gid)); err != nil {
			return fmt.Errorf("%s would change its owner: %w", name, err)
		}
	}
	return file.Chmod(old.Mode().Perm())
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
