package dirstore

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
)

// A small record may be a symbolic link with the value in place of a target. To make
// one is as atomic as link(2), and a single call instead of five: a private directory,
// where creating a communicator waits for records, has them so. And when a disk is
// full, there is still room for them: file systems keep a short one in the inode. A
// rank that has promised must be able to record a decision, or it waits until the job
// fails. (Acknowledgements are empty and need no block either.)

// maxPrivate is what private directories keep so. Others try it for the same records
// when the disk is full: ext4 has room for 59 bytes in an inode, tmpfs for all.
const maxPrivate = 1023

func inline(value []byte, most int) bool {
	return len(value) > 0 && len(value) <= most && !strings.Contains(string(value), "\x00")
}

func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// read returns a record of either kind.
func read(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, syscall.ELOOP) {
		value, err := os.Readlink(path)
		return []byte(value), err
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}
