package watch

import (
	"os"
	"path/filepath"
	"strings"
)

// entry is an entry of a directory that a path is resolved by.
type entry struct{ dir, name string }

func (e entry) path() string { return filepath.Join(e.dir, e.name) }

// maxLinks is how many symbolic links Linux follows.
const maxLinks = 40

// trail goes the way of an absolute path and returns the symbolic links on it and
// its end, or the first entry that is missing. The directories in between are left
// out: watching them would mean being woken by whatever happens in /tmp and in
// home directories. The last one tells itself that it was removed or renamed;
// when one farther up was, polling finds out.
func trail(path string) (entries []entry) {
	at, rest := string(filepath.Separator), elements(path)
	for links := 0; len(rest) > 0 && links <= maxLinks; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			at = filepath.Dir(at)
			continue
		}
		here := entry{at, name}
		info, err := os.Lstat(here.path())
		if err != nil {
			return append(entries, here)
		}
		if info.Mode()&os.ModeSymlink != 0 {
			entries = append(entries, here)
			links++
			target, err := os.Readlink(here.path())
			if err != nil {
				return entries
			}
			if filepath.IsAbs(target) {
				at = string(filepath.Separator)
			}
			rest = append(elements(target), rest...)
			continue
		}
		if len(rest) == 0 {
			return append(entries, here)
		}
		at = here.path()
	}
	return entries
}

func elements(path string) (names []string) {
	for _, name := range strings.Split(path, string(filepath.Separator)) {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	return names
}
