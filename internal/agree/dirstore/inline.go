package dirstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
)

// Where a disk is full, and always in a private directory, a small record is a symbolic link with
// the value as its target. Creating one is as atomic as link(2), a single system call, and takes no
// block. File systems keep a short link in the inode, ext4 up to 59 bytes
// and tmpfs of any length, so ranks can still join. (From its promise on a rank needs only
// empty records, which need no block either, and a decision is a rename; the first of each kind
// makes a directory.)

// maxLink is the longest value that is kept as a link.
const maxLink = 1023

func fitsLink(value []byte) bool {
	return len(value) > 0 && len(value) <= maxLink && !strings.Contains(string(value), "\x00")
}

// refused reports that the operation has had no effect and will have none.
func refused(err error) bool {
	return full(err) || errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission)
}

func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// symlink makes a record a symbolic link. An error does not repeat the record, as os's
// would.
func symlink(value []byte, path string) error {
	err := os.Symlink(string(value), path)
	if at := (*os.LinkError)(nil); errors.As(err, &at) {
		return &fs.PathError{Op: at.Op, Path: path, Err: at.Err}
	}
	return err
}

// mostRecord bounds a record: a version of two files at their limits has 128 MiB.
const mostRecord = 256 << 20

// read returns a record of either kind.
func (s *Store) read(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		info, err := os.Lstat(path)
		if err == nil {
			err = s.check(path, info)
		}
		if err != nil {
			return nil, err
		}
		value, err := os.Readlink(path)
		return []byte(value), err
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no record but %v", path, info.Mode().Type())
	}
	if err := s.check(path, info); err != nil {
		return nil, err
	}
	return safefile.All(f, mostRecord)
}
