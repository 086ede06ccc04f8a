package dirstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Look opens a directory of records for a tool that reads or prunes it. It creates nothing,
// and takes no lock, so others may remove the directory.
func Look(dir string) (*Store, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	return newStore(dir, "look")
}

// Made implements agree.Records. A record is as old as its file.
func (s *Store) Made(ctx context.Context, dir string) (map[string]time.Time, error) {
	below, err := s.path(dir)
	if err != nil {
		return nil, err
	}
	return do(ctx, s, func() (map[string]time.Time, error) {
		made := map[string]time.Time{}
		err := filepath.WalkDir(below, func(at string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // gone since it was listed
			}
			if err != nil || e.IsDir() || strings.HasPrefix(e.Name(), tempPrefix) {
				return err
			}
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			} else if err != nil {
				return err
			}
			relative, err := filepath.Rel(below, at)
			made[path.Join(dir, filepath.ToSlash(relative))] = info.ModTime()
			return err
		})
		return made, err
	})
}

// PrivateDirs lists the private directories below parent, of one user or, for a
// uid of -1, of all.
func PrivateDirs(parent string, uid int) (dirs []string, err error) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return nil, err
	}
	prefix := privatePrefix
	if uid >= 0 {
		prefix = fmt.Sprintf("%s%d-", privatePrefix, uid)
	}
	for _, e := range entries {
		dir := filepath.Join(parent, e.Name())
		if strings.HasPrefix(e.Name(), prefix) && e.IsDir() && (uid < 0 || owned(dir) == nil) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}
