package dirstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// RemoveUnused removes a private directory unless a process uses it, and reports
// whether it is gone.
func RemoveUnused(dir string) bool {
	removeUnused(dir)
	os.Remove(dir) // an empty one, whose maker has crashed
	_, err := os.Lstat(dir)
	return errors.Is(err, fs.ErrNotExist)
}

// Unused reports whether RemoveUnused would remove a private directory now.
func Unused(dir string) bool {
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer lock.Close()
	return flock(lock, syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
