package doctor

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
)

// machines are the processors of this project, by Go's name.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// glibcs are where distributions have it.
var glibcs = []string{"/lib64/libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6", "/lib/aarch64-linux-gnu/libc.so.6",
	"/usr/lib64/libc.so.6", "/usr/lib/libc.so.6"}

// unloadable looks into a library that cannot be loaded, without loading it. It returns none if the file is not there,
// or if nothing in the file itself is wrong. The dynamic loader's words do not tell these apart: it skips a library for
// another processor, and then says that there is no such file.
func (d *doctor) unloadable(name, consequence string) []Finding {
	fault := func(do, format string, args ...any) []Finding {
		return []Finding{failed(do, consequence+": "+format, args...)}
	}
	path := d.locate(name)
	if path == "" {
		return nil
	}
	file, info, err := safefile.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		do := "name the library's file"
		if errors.Is(err, fs.ErrPermission) {
			do = "let the job's user read it: chmod a+r on the file, a+x on each folder above"
		}
		return fault(do, "%s cannot be read: %v", path, safefile.Reason(err))
	}
	defer file.Close()
	const again = "copy or build it anew, and compare it with the original: sha256sum"
	lib, err := elf.NewFile(file)
	if err != nil {
		return fault(again, "%s (%d bytes) is no library, or only the beginning of one: %v", path,
			info.Size(), err)
	}
	if here := machines[runtime.GOARCH]; lib.Machine != here {
		return fault("take the library for "+processor(here)+", or build it on a machine of that kind: make",
			"%s is for %s, this machine is %s", path, processor(lib.Machine), processor(here))
	}
	needs, here := neededGlibc(lib), d.glibc()
	if here == (glibc{}) || !here.older(needs) {
		return nil
	}
	return fault(fmt.Sprintf("take a release's library, which needs glibc 2.17, or build it on this machine (make), "+
		"or on one whose glibc is %s or older", here),
		"%s needs GLIBC_%s, and here is glibc %s%s", path, needs, here, builtBy(lib))
}

// locate is the file that a name means. For a bare name it looks in LD_LIBRARY_PATH only: in the system's own
// directories a package manager takes care. "": there is none.
func (d *doctor) locate(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	for _, dir := range filepath.SplitList(d.env.Get("LD_LIBRARY_PATH")) {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); err == nil {
			return path
		}
	}
	return ""
}

// processor is a machine as uname -m names it.
func processor(m elf.Machine) string {
	return strings.ToLower(strings.TrimPrefix(m.String(), "EM_"))
}

// builtBy is the compiler that a library names, which tells the distribution.
func builtBy(lib *elf.File) string {
	if section := lib.Section(".comment"); section != nil {
		if text, err := section.Data(); err == nil {
			first, _, _ := bytes.Cut(text, []byte{0})
			return fmt.Sprintf("; it was built by %s", first)
		}
	}
	return ""
}

// glibc is a version of it; zero is not known.
type glibc struct{ major, minor int }

func (g glibc) String() string { return fmt.Sprintf("%d.%d", g.major, g.minor) }

func (g glibc) older(than glibc) bool {
	return g.major < than.major || g.major == than.major && g.minor < than.minor
}

// newer returns the version that a name such as GLIBC_2.34 means, if it is newer.
func (g glibc) newer(name string) glibc {
	text, ok := strings.CutPrefix(name, "GLIBC_")
	major, rest, _ := strings.Cut(text, ".")
	minor, _, _ := strings.Cut(rest, ".")
	var v glibc
	var err1, err2 error
	v.major, err1 = strconv.Atoi(major)
	v.minor, err2 = strconv.Atoi(minor)
	if ok && err1 == nil && err2 == nil && g.older(v) {
		return v
	}
	return g
}

// neededGlibc is the newest glibc that a library asks for.
func neededGlibc(lib *elf.File) (newest glibc) {
	needs, _ := lib.DynamicVersionNeeds()
	for _, of := range needs {
		for _, n := range of.Needs {
			newest = newest.newer(n.Dep)
		}
	}
	return newest
}

// glibc is this machine's: the newest version that it defines.
func (d *doctor) glibc() (newest glibc) {
	for _, path := range d.glibcs {
		lib, err := elf.Open(path)
		if err != nil {
			continue
		}
		defer lib.Close()
		if lib.Machine != machines[runtime.GOARCH] {
			continue
		}
		versions, _ := lib.DynamicVersions()
		for _, v := range versions {
			newest = newest.newer(v.Name)
		}
		return newest
	}
	return newest
}
