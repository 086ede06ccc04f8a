package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"unicode"
)

// mayWrite refuses a file that is there already, so that a command can stop
// before it does any work. An empty name is no file.
func mayWrite(name string, force bool) error {
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

// writeWhole makes a file whole or not at all.
func writeWhole(name string, force bool, write func(io.Writer) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
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
	// CreateTemp's mode is for secrets.
	if err := errors.Join(file.Chmod(0o644), file.Close()); err != nil {
		return err
	}
	if err := mayWrite(name, force); err != nil { // somebody else may have made it meanwhile
		return err
	}
	return os.Rename(file.Name(), name)
}

// output is where commands print. It keeps the first error, so that none of them has to
// look at every line, and prints nothing after it.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(text []byte) (n int, err error) {
	if o.err == nil {
		n, o.err = o.Writer.Write(text)
	}
	return n, o.err
}

// complete returns the error of a command, or that its output is not complete where that
// is why it failed, or where it has nothing worse to say.
func (o *output) complete(err error) error {
	var code exitError
	if o.err != nil && (err == nil || errors.Is(err, o.err) || errors.As(err, &code)) {
		return fmt.Errorf("the output is not complete: %w", o.err)
	}
	return err
}

// printable keeps what others have written into their records from steering the
// terminal of whoever reads it, who may be root.
type printable struct{ io.Writer }

func (p printable) Write(text []byte) (int, error) {
	_, err := p.Writer.Write(bytes.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' {
			return r
		}
		return '?'
	}, text))
	return len(text), err
}
