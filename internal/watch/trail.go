package watch

import (
	"os"
	"path/filepath"
	"strings"
)

// place is an entry of a directory on which it depends what a path leads to.
type place struct{ dir, name string }

func (p place) path() string { return filepath.Join(p.dir, p.name) }

// maxLinks is how many symbolic links Linux follows.
const maxLinks = 40

// trail goes the way of an absolute path and returns the symbolic links on it and
// its end, or the first entry that is missing. The directories in between are left
// out: watching them would mean being woken by whatever happens in /tmp and in
// home directories. The last one tells itself that it was removed or renamed;
// when one farther up was, polling finds out.
func trail(path string) (places []place) {
	at, rest := string(filepath.Separator), elements(path)
	for links := 0; len(rest) > 0 && links <= maxLinks; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			at = filepath.Dir(at)
			continue
		}
		here := place{at, name}
		info, err := os.Lstat(here.path())
		if err != nil {
			return append(places, here)
		}
		if info.Mode()&os.ModeSymlink != 0 {
			places = append(places, here)
			links++
			target, err := os.Readlink(here.path())
			if err != nil {
				return places
			}
			if filepath.IsAbs(target) {
				at = string(filepath.Separator)
			}
			rest = append(elements(target), rest...)
			continue
		}
		if len(rest) == 0 {
			return append(places, here)
		}
		at = here.path()
	}
	return places
}

func elements(path string) (names []string) {
	for _, name := range strings.Split(path, string(filepath.Separator)) {
		if name != "" && name != "." {
			names = append(names, name)
		}
	}
	return names
}
