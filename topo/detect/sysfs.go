package detect

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/internal/cnum"
)

// sysfs reads the kernel's view of the machine below a root directory, "/" or a fake one. Paths given to it and coming
// from it are those of the machine, without the root. What was read is kept, since detection asks for the same
// attribute once per GPU.
type sysfs struct {
	root string
	text map[string]string
}

func newSysfs(root string) *sysfs {
	if root == "" {
		root = "/"
	}
	// Real paths are cut at the root, so the root itself must be one.
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	}
	return &sysfs{root: root, text: make(map[string]string)}
}

// read returns the text of a file without the line end, or "" when it cannot be read: a driver may leave out or refuse
// any attribute.
func (s *sysfs) read(path ...string) string {
	name := filepath.Join(path...)
	text, ok := s.text[name]
	if !ok {
		raw, err := safefile.Read(filepath.Join(s.root, name), 1<<20)
		if err == nil {
			text = strings.TrimRight(string(raw), "\r\n")
		}
		s.text[name] = text
	}
	return text
}

func (s *sysfs) exists(path string) bool {
	_, err := os.Stat(filepath.Join(s.root, path))
	return err == nil
}

// realpath follows all links. ok is false when there is nothing at the path.
func (s *sysfs) realpath(path ...string) (real string, ok bool) {
	full, err := filepath.EvalSymlinks(filepath.Join(s.root, filepath.Join(path...)))
	if err != nil {
		return "", false
	}
	rel, err := filepath.Rel(s.root, full)
	if err != nil {
		return "", false
	}
	return filepath.Join("/", rel), true
}

// list returns the names in a directory in alphabetical order, none when there is no such directory.
func (s *sysfs) list(path string) []string {
	entries, err := os.ReadDir(filepath.Join(s.root, path))
	if err != nil {
		return nil
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}

// pciPath is the directory of a PCI device, whose parents are the bridges above it.
func (s *sysfs) pciPath(busID string) (path string, ok bool) {
	busID = strings.ToLower(busID)
	if !isBusID(busID) {
		return "", false
	}
	return s.realpath("/sys/bus/pci/devices", busID)
}

// isBusID reports whether s is a PCI address such as 0000:3b:00.0.
func isBusID(s string) bool {
	const form = "xxxx:xx:xx.x"
	if len(s) != len(form) {
		return false
	}
	for i := range len(form) {
		if form[i] == 'x' && cnum.HexDigit(s[i]) > 15 || form[i] != 'x' && s[i] != form[i] {
			return false
		}
	}
	return true
}
