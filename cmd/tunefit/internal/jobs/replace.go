package jobs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// replaceable returns the file that writing to name has to replace, behind all links,
// and what it holds now; old is nil if there is none yet.
func replaceable(name string) (path string, old []byte, err error) {
	if path, err = filepath.Abs(name); err != nil {
		return "", nil, err
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
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

// replaceFile puts text in the place of a file at once: who reads it finds the old
// text or the new one, also after a crash. Owner and permissions stay.
func replaceFile(path string, text []byte) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(temp.Name())
		}
	}()
	_, err = temp.Write(text)
	mode := fs.FileMode(0o644)
	if info, statErr := os.Stat(path); statErr == nil {
		mode = info.Mode().Perm()
		if st, ok := info.Sys().(*syscall.Stat_t); ok && (int(st.Uid) != os.Geteuid() || int(st.Gid) != os.Getegid()) {
			if chownErr := temp.Chown(int(st.Uid), int(st.Gid)); chownErr != nil {
				err = errors.Join(err, fmt.Errorf("%s would change its owner: %w", path, chownErr))
			}
		}
	}
	if err = errors.Join(err, temp.Chmod(mode), temp.Sync(), temp.Close()); err != nil {
		return err
	}
	if err = os.Rename(temp.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("%s is replaced, but may come back after a crash: %w", path, err)
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) { // some file systems have no such thing
		return fmt.Errorf("%s is replaced, but may come back after a crash: %w", path, err)
	}
	return nil
}
