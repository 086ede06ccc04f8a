// Package safefile reads and writes files that others may have a hand in. It reads regular files only, which no other
// process can hold up, and of bounded size; OpenOwned also wants nobody else to be able to change them. It writes files
// whole or not at all. Timeouts bounds the wait for a file system or a driver that does not answer.
package safefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Open opens a regular file for reading. Anything else is an error, a *fs.PathError that says what it is. Open
// never waits for another process, as opening a FIFO does, and never takes a terminal. Only a file system that
// does not answer can block it. info describes the open file, which may no longer be the one at path.
func Open(path string) (f *os.File, info fs.FileInfo, err error) {
	f, err = os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("not a regular file but %s", kind(info.Mode()))}
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// Reason drops the path from an error of the file system, for a message that names it already.
func Reason(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// Read returns what a regular file of up to most bytes holds, some MiB. A larger one is an error: it may be
// sparse, and larger than all memory.
func Read(path string, most int64) ([]byte, error) {
	f, _, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return All(f, most)
}

// ReadOwned is Read for a file that nobody else can change; see OpenOwned.
func ReadOwned(path string, trust bool, most int64) ([]byte, error) {
	f, _, err := OpenOwned(path, trust)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return All(f, most)
}

// All is Read for a file that is open already.
func All(f *os.File, most int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if info.Size() <= most {
		text.Grow(int(info.Size()) + bytes.MinRead)
		_, err = text.ReadFrom(io.LimitReader(f, most+1)) // it may grow meanwhile
	}
	switch {
	case err != nil:
		return nil, err
	case max(info.Size(), int64(text.Len())) > most:
		return nil, &fs.PathError{Op: "read", Path: f.Name(), Err: fmt.Errorf("larger than %d MiB", most>>20)}
	}
	return text.Bytes(), nil
}

func kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "of the kind " + mode.Type().String()
}
