package doctor

import (
	"cmp"
	"context"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/probe"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// tunerModule is what our own library is built from.
const tunerModule = "github.com/nccl-tuner-go/nccl-tuner-go"

// loadsNone reports whether NCCL_TUNER_PLUGIN makes NCCL load no library. With STATIC_PLUGIN it looks for a tuner in
// the program itself.
func loadsNone(value string) bool {
	return strings.EqualFold(value, "none") || strings.EqualFold(value, "STATIC_PLUGIN")
}

// pluginFound is what NCCL would load as the tuner.
type pluginFound struct {
	said []string       // of each name that NCCL tries, why it cannot be loaded
	lib  *probe.Library // nil: none
	path string
	file string // the path without links
	ours bool
	etcd bool  // ours, and can meet in an etcd
	err  error // nothing could be tried
}

// pluginNames lists what NCCL opens for a value of NCCL_TUNER_PLUGIN, by its src/plugin/plugin_open.cc. That is the
// value, and then libnccl-tuner-VALUE.so, unless the value is a path or lib*.so.
func pluginNames(value string) []string {
	switch {
	case value == "":
		return []string{"libnccl-tuner.so"}
	case strings.Contains(value, "/"), strings.HasPrefix(value, "lib") && strings.HasSuffix(value, ".so"):
		return []string{value}
	}
	return []string{value, "libnccl-tuner-" + value + ".so"}
}

func (d *doctor) findPlugin(ctx context.Context) (p pluginFound) {
	value := d.env.Get(tuner.EnvPlugin)
	if loadsNone(value) {
		return p
	}
	for _, name := range pluginNames(value) {
		lib, err := d.env.Probe(ctx, name)
		if refused := (*probe.NotLoadedError)(nil); errors.As(err, &refused) {
			p.said = append(p.said, refused.Reason)
			continue
		}
		if err != nil {
			p.err = err
			return p
		}
		p.lib, p.path = lib, lib.Path
		if real, err := filepath.EvalSymlinks(lib.Path); err == nil {
			p.file = real
		}
		if info, err := buildinfo.ReadFile(p.path); err == nil && info.Main.Path == tunerModule {
			p.ours = slices.Contains(slices.Collect(maps.Values(lib.Tuners)), "Go")
			for _, s := range info.Settings {
				p.etcd = p.etcd || s.Key == "-tags" && slices.Contains(strings.Split(s.Value, ","), "etcd")
			}
		}
		return p
	}
	return p
}

func (d *doctor) examinePlugin(_ context.Context, r *report) {
	value, shown := d.env.Get(tuner.EnvPlugin), d.env.Show(tuner.EnvPlugin)
	do := "set " + tuner.EnvPlugin + " to the path of " + cli.LibraryName
	if own, err := filepath.Abs(d.Library); err == nil && d.Library != "" {
		do = "set " + tuner.EnvPlugin + "=" + own
	}
	p := d.plugin()
	late := errors.Is(p.err, context.DeadlineExceeded)
	if p.lib == nil && !loadsNone(value) && !late {
		for i, name := range pluginNames(value) {
			if d.unloadable(r, name, "NCCL loads no tuner", append(p.said, "", "")[i]) {
				return
			}
		}
	}
	switch {
	case loadsNone(value):
		r.fail(do, "%s: NCCL loads no tuner", shown)
	case late:
		r.timedOut(d, "whether NCCL can load "+shown+" is not known")
	case p.err != nil && !probe.Supported:
		r.unknown("%v", p.err)
	case p.err != nil:
		r.fail(do, "%s cannot be loaded: %v", shown, p.err)
	case p.lib == nil && value == "":
		r.fail(do, "%s is not set and there is no libnccl-tuner.so: NCCL loads no tuner, unless its network plugin "+
			"has one", tuner.EnvPlugin)
	case p.lib == nil:
		r.fail(do+", or add its folder to LD_LIBRARY_PATH",
			"%s: NCCL finds nothing to load, and says so only with NCCL_DEBUG=INFO:\n%s", shown,
			strings.Join(p.said, "\n"))
	case len(p.lib.Tuners) == 0:
		r.fail(do, "%s has no tuner of version 2 to 7: NCCL does not use it", p.path)
	case !p.ours:
		r.fail(do, "%s is another tuner, %q", p.path, distinct(slices.Collect(maps.Values(p.lib.Tuners))))
	default:
		d.ourPlugin(r, p, value)
	}
}

func distinct(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// ourPlugin examines a library of this project that NCCL would load.
func (d *doctor) ourPlugin(r *report, p pluginFound, value string) {
	version := cmp.Or(p.lib.Version, "of unknown version")
	etcd := ""
	if p.etcd {
		etcd = ", with etcd"
	}
	abis := slices.Sorted(maps.Keys(p.lib.Tuners)) // without gaps, in a library of ours
	r.fine("%s, %s, ABI v%d-v%d%s", p.path, version, abis[0], abis[len(abis)-1], etcd)
	if version != tuner.Release {
		r.warn("install both from one build: make install",
			"%s is version %s, this tunefit is %s: they may not agree about files", p.path, version, tuner.Release)
	}
	if strings.Contains(value, "/") {
		d.relative(r, tuner.EnvPlugin)
	}
	if value == "" {
		r.warn("set "+tuner.EnvPlugin+"="+p.path, "%s is not set; %s is found by its name alone", tuner.EnvPlugin,
			p.path)
	}
	writable(r, p.file, "run code in the job")
}

// machines are the processors of this project, by Go's name.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// needsGlibc is how the dynamic loader says that a library was built for a newer glibc than this machine's.
var needsGlibc = regexp.MustCompile("version `GLIBC_[0-9.]+' not found")

// unloadable looks into a library that cannot be loaded, without loading it. It is false if the file is not there, or
// if nothing in the file itself is wrong. What the dynamic loader said does not tell these apart: it skips a library
// for another processor, and then says that there is no such file.
func (d *doctor) unloadable(r *report, name, consequence, said string) bool {
	path := d.locate(name)
	if path == "" {
		return false
	}
	file, info, err := safefile.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	if err != nil {
		do := "name the library's file"
		if errors.Is(err, fs.ErrPermission) {
			do = "let the job's user read it: chmod a+r on the file, a+x on each folder above"
		}
		r.fail(do, "%s: %s cannot be read: %v", consequence, path, safefile.Reason(err))
		return true
	}
	defer file.Close()
	here := machines[runtime.GOARCH]
	switch lib, err := elf.NewFile(file); {
	case err != nil:
		r.fail("copy or build it anew, and compare it with the original: sha256sum",
			"%s: %s (%d bytes) is no library, or only the beginning of one: %v", consequence, path, info.Size(), err)
	case lib.Machine != here:
		r.fail("take the library for "+processor(here)+", or build it on a machine of that kind: make",
			"%s: %s is for %s, this machine is %s", consequence, path, processor(lib.Machine), processor(here))
	case needsGlibc.MatchString(said):
		r.fail("take a release's library, which needs glibc 2.17, or build it on this machine: make", "%s: %s",
			consequence, said)
	default:
		return false
	}
	return true
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
