package jobs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// replaceable returns the file that writing to name has to replace, behind all links,
// and what it holds now; old is nil if there is none yet.
func replaceable(name string) (path string, old []byte, err error) {
	if path, err = filepath.Abs(name); err != nil {
		return "", nil, err
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil, fmt.Errorf("%s: there is no folder %s; nothing was written", name, filepath.Dir(path))
		}
		if err != nil {
			return "", nil, err
		}
		return filepath.Join(dir, filepath.Base(path)), nil, nil
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", nil, err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", nil, err
	case info.IsDir():
		return "", nil, fmt.Errorf("%s is a directory (needed: the file that the job reads)", name)
	case !info.Mode().IsRegular():
		return "", nil, fmt.Errorf("%s is not a regular file (%s), and the job reads nothing else", name, info.Mode().Type())
	}
	if old, err = os.ReadFile(path); old == nil {
		old = []byte{}
	}
	return path, old, err
}
