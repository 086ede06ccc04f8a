package livejobs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
)

// behindLinks follows all links to an absolute path; the file itself need not exist.
func behindLinks(name string) (path string, exists bool, err error) {
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		dir, err := filepath.EvalSymlinks(filepath.Dir(name))
		return filepath.Join(dir, filepath.Base(name)), false, err
	}
	path, err = filepath.EvalSymlinks(name)
	return path, true, err
}

// replaceable returns the file that writing to name has to replace, behind all links,
// and what it holds now; old is nil if there is none yet.
func replaceable(name string) (path string, old []byte, err error) {
	if path, err = filepath.Abs(name); err != nil {
		return "", nil, err
	}
	folder := filepath.Dir(path)
	path, exists, err := behindLinks(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !exists:
		return "", nil, fmt.Errorf("%s: there is no folder %s; nothing was written", name, folder)
	case err != nil:
		return "", nil, err
	case strings.Contains(path, string(filepath.Separator)+".."):
		return "", nil,
			fmt.Errorf("%s is in a volume that Kubernetes fills: it would undo the change, and other pods have "+
				"copies of their own; nothing was written"+todo+
				"change what the volume is filled from (kubectl edit configmap); the jobs follow once the "+
				"kubelets have "+
				"brought it to all nodes, and tunefit status --watch shows it", name)
	case !exists:
		return path, nil, nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", nil, err
	case info.IsDir():
		return "", nil, fmt.Errorf("%s is a directory (needed: the file that the job reads)", name)
	case !info.Mode().IsRegular():
		return "", nil, fmt.Errorf("%s is not a regular file (%s), and the job reads nothing else", name,
			info.Mode().Type())
	}
	if old, err = safefile.Read(path, policyfile.MaxFileBytes); old == nil {
		old = []byte{}
	}
	return path, old, err
}
