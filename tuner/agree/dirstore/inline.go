package dirstore

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
)

// When the disk is full, a small record is a symbolic link with the value in place of
// a target. File systems keep a short one in the inode, so that it needs no block, and
// making it is as atomic as link(2). A rank that has promised must be able to record a
// decision, or it waits until the job fails; it is of such records that this is for,
// but acknowledgements, which are empty, need no block either.

// maxInline is what ext4 keeps in an inode; others keep more.
const maxInline = 59

func inline(value []byte) bool {
	return len(value) > 0 && len(value) <= maxInline && !strings.Contains(string(value), "\x00")
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
