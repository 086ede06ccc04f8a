package doctor

import (
	"bytes"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
)

// otherCopies finds libraries of ours with other content than the one that would be
// loaded: where the dynamic loader looks, and beside tunefit.
func (d *doctor) otherCopies(p pluginFound) []finding {
	loaded := digestOf(p.file)
	var others []string
	for _, path := range d.libraries(cli.LibraryName, filepath.Base(p.file)) {
		if path != p.file && !bytes.Equal(digestOf(path), loaded) {
			others = append(others, path)
		}
	}
	if len(others) == 0 {
		return nil
	}
	return []finding{noted("keep one", "other builds of the tuner lie around and are not taken: %s", strings.Join(others, ", "))}
}

// libraries finds files by their names in the folders of LD_LIBRARY_PATH, in the
// dynamic loader's own, and beside tunefit, each file once and without links.
func (d *doctor) libraries(names ...string) (found []string) {
	var dirs []string
	if path := d.env.vars["LD_LIBRARY_PATH"]; path.file == "" { // NCCL's files come too late for the loader
		dirs = filepath.SplitList(path.value)
	}
	for _, pattern := range d.libDirs {
		matches, _ := filepath.Glob(pattern) // the patterns are well-formed
		dirs = append(dirs, matches...)
	}
	if own := d.ownLibrary(); own != "" {
		dirs = append(dirs, filepath.Dir(own))
	}
	for _, dir := range dirs { // an empty one is the working folder, here as for the loader
		for _, name := range names {
			real, err := filepath.EvalSymlinks(filepath.Join(dir, name))
			if err == nil && !slices.Contains(found, real) {
				found = append(found, real)
			}
		}
	}
	return found
}

// digestOf is nil for a file that cannot be read.
func digestOf(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return nil
	}
	return h.Sum(nil)
}
