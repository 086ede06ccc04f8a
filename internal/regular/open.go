// Package regular opens the files that a user names, inside a process that must not
// wait for them.
package regular

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Open opens a regular file for reading. Anything else is an error, a *fs.PathError
// that says what it is. It never waits for another process, as opening a FIFO does,
// and never takes a terminal. The kind is told of the open descriptor, so that a
// file that is replaced meanwhile is judged as what is read; info is the
// descriptor's, too. Only a file system that does not answer holds it up.
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
