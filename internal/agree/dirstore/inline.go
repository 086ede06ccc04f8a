package dirstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// A small record may be a symbolic link with the value in place of a target. To make
// one is as atomic as link(2), and a single call instead of five: a private directory,
// where creating a communicator waits for records, has them so. And when a disk is
// full, there is still room for them: file systems keep a short one in the inode. So ranks
// can still meet. (What a change needs of a rank from its promise on is empty and needs no
// block either, and a decision is a rename; the first of them makes a directory.)

// maxPrivate is what private directories keep so. Others try it for the same records
// when the disk is full: ext4 has room for 59 bytes in an inode, tmpfs for all.
const maxPrivate = 1023

func inline(value []byte, most int) bool {
	return len(value) > 0 && len(value) <= most && !strings.Contains(string(value), "\x00")
}

// refused reports that the file system has not done what it was asked for, and will not.
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
	return io.ReadAll(f)
}
