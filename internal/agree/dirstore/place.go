package dirstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// Usable returns an error if no process of this user can make a directory below parent, usually Shm. Either
// parent does not exist or it cannot be written. All processes that see the same file systems get the same
// answer.
func Usable(parent string) error {
	err := unix.Access(parent+"/.", unix.R_OK|unix.W_OK|unix.X_OK)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENOTDIR),
		errors.Is(err, syscall.EROFS):
		return &fs.PathError{Op: "access", Path: parent, Err: err}
	}
	return nil // any other error may not occur in the next process
}

// InPlace returns an error unless processes that open the directory now find this one. Somebody may have
// removed or replaced it. Processes no longer find a private directory if only its lock file is gone, see
// choose.
func (s *Store) InPlace(ctx context.Context) error {
	return s.act(ctx, lockName, func(lock string) error {
		err := s.alive()
		if err == nil && s.lock != nil && !same(s.lock, lock) {
			err = fmt.Errorf("%s: %w", lock, errReplaced)
		}
		return err
	})
}
