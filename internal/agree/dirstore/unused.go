package dirstore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
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

// staleTemp is the age from which on a temporary file is nobody's. It is written in
// moments; a file server may be away for hours.
const staleTemp = 24 * time.Hour

// Prune removes directories below dir that have become empty, and what writers that
// crashed have left there. Whoever puts a record creates its directory if need be.
func (s *Store) Prune(ctx context.Context, dir string) error {
	return s.act(ctx, dir, func(below string) error {
		var dirs []string
		err := filepath.WalkDir(below, func(at string, e fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil:
				return err
			case e.IsDir():
				dirs = append(dirs, at)
			case strings.HasPrefix(e.Name(), tempPrefix):
				if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > staleTemp {
					os.Remove(at)
				}
			}
			return nil
		})
		for i := len(dirs) - 1; i >= 0; i-- {
			os.Remove(dirs[i]) // only an empty one
		}
		return err
	})
}
