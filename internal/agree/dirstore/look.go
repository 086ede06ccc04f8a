package dirstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
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

// belowDepth is how far Below looks: jobs have folders such as DIR/JOB or DIR/USER/JOB.
const belowDepth = 2

// Below lists the directories of records: dir itself and those below it, because sites give each job a folder
// of its own. It follows no links below dir. unseen lists what it could not look at.
func Below(dir string) (dirs []string, unseen []error) {
	var look func(at string, depth int)
	look = func(at string, depth int) {
		entries, err := os.ReadDir(at)
		if err != nil {
			if at == dir || !errors.Is(err, fs.ErrNotExist) { // a job that has ended may have removed its own
				unseen = append(unseen, err)
			}
			return
		}
		used := slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
			return (e.Name() == agree.CommsDir || e.Name() == agree.VersionDir) && e.IsDir()
		})
		if used {
			dirs = append(dirs, at)
		}
		if depth == belowDepth || used && at != dir {
			return
		}
		for _, e := range entries {
			switch {
			case !e.IsDir(), used && slices.Contains(agree.Dirs, e.Name()):
			case strings.ContainsFunc(e.Name(), unicode.IsControl): // the name could forge lines of the output
				unseen = append(unseen, fmt.Errorf("%q in %s: control characters in the name", e.Name(), at))
			default:
				look(filepath.Join(at, e.Name()), depth+1)
			}
		}
	}
	look(dir, 0)
	return dirs, unseen
}

// Made implements agree.Records. A record is as old as its file.
func (s *Store) Made(ctx context.Context, dir string) (map[string]time.Time, error) {
	return do(ctx, s, dir, func(below string) (map[string]time.Time, error) {
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
		if strings.HasPrefix(e.Name(), prefix) && e.IsDir() && (uid < 0 || owned(dir)) {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}
