// Package localenv tells what a job would find on this node: its environment with NCCL's files, NCCL's libraries, and
// the machine.
package localenv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/probe"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
)

// Environment is a process's environment with the variables of NCCL's files, which replace none that is set.
type Environment struct {
	process []string // without NCCL's files
	home    string   // "" if it is not known
	Vars    map[string]Setting
	// Files are NCCL's files, in the order in which it reads them.
	Files []File
	// Ignored is ~/.nccl.conf, if NCCL_CONF_FILE makes NCCL ignore it.
	Ignored string
}

// Setting is the value of a variable and where it comes from.
type Setting struct {
	Value string
	File  string // "" for the environment itself
	Line  int
}

// File is a file of variables for NCCL.
type File struct {
	Path    string
	Named   bool // by NCCL_CONF_FILE
	Err     error
	Entries []Entry
}

// Entry is one line NAME=VALUE, with its blanks.
type Entry struct {
	Name string
	Setting
	Beaten bool // it was set before, so this value does not count
	// CR says that the line ends as in Windows. The value is without that, as NCCL takes it since nccl.DropsCR.
	CR bool
}

// ConfVariable names a file that NCCL reads instead of the user's own.
const ConfVariable = "NCCL_CONF_FILE" // since NCCL 2.23.4

// Here is the environment of this process, on this machine.
func Here() *Environment {
	home := ""
	if u, err := user.Current(); err == nil {
		home = u.HomeDir
	}
	return ReadEnvironment(os.Environ(), home, "/etc/nccl.conf")
}

// ReadEnvironment does as NCCL's src/misc/param.cc: it reads the user's file, then the machine's.
func ReadEnvironment(process []string, home, machineConf string) *Environment {
	e := &Environment{process: process, home: home, Vars: map[string]Setting{}}
	for _, v := range process {
		if name, value, ok := strings.Cut(v, "="); ok {
			e.Vars[name] = Setting{Value: value}
		}
	}
	userConf := ""
	if home != "" {
		userConf = filepath.Join(home, ".nccl.conf")
	}
	if named := e.Get(ConfVariable); named != "" {
		if _, err := os.Stat(userConf); userConf != "" && err == nil && userConf != named {
			e.Ignored = userConf
		}
		e.add(File{Path: named, Named: true})
	} else if userConf != "" {
		e.add(File{Path: userConf})
	}
	e.add(File{Path: machineConf})
	return e
}

func (e *Environment) add(c File) {
	text, err := cli.ReadRegular(c.Path)
	if errors.Is(err, fs.ErrNotExist) && !c.Named {
		return
	}
	c.Err = err
	c.Entries = confEntries(c.Path, string(text))
	for i := range c.Entries {
		entry := &c.Entries[i]
		if _, entry.Beaten = e.Vars[entry.Name]; !entry.Beaten {
			e.Vars[entry.Name] = entry.Setting
		}
	}
	e.Files = append(e.Files, c)
}

// confEntries reads the lines of a file. As in NCCL, a blank before the equals sign is part of the name, and quotes are
// part of the value.
func confEntries(path, text string) (entries []Entry) {
	const longest = 1023
	for i, line := range strings.Split(text, "\n") {
		name, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		value, cr := strings.CutSuffix(value, "\r")
		entries = append(entries, Entry{Name: name[:min(len(name), longest)], CR: cr,
			Setting: Setting{Value: value[:min(len(value), longest)], File: path, Line: i + 1}})
	}
	return entries
}

// Get is a variable's value, "" if it is not set.
func (e *Environment) Get(name string) string { return e.Vars[name].Value }

// Show is a variable's name and value for a message, with its file if it has one, and without a password.
func (e *Environment) Show(name string) string {
	s := e.Vars[name]
	s.Value = wording.HideSecrets(s.Value)
	if s.File != "" {
		return fmt.Sprintf("%s=%s (%s:%d)", name, s.Value, s.File, s.Line)
	}
	return fmt.Sprintf("%s=%s", name, s.Value)
}

// AnswerLimit is how long the driver, or an etcd, may take to answer. doctor has to report within three seconds.
const AnswerLimit = 1800 * time.Millisecond

// FindingMachine is policyfile.FindMachine, or a test's.
type FindingMachine func(getenv func(string) string) (*topo.Machine, detect.Source, error)

// Machine is this machine as the tuner would see it.
type Machine struct {
	Here *topo.Machine // nil: not known
	From detect.Source
	Err  error
	Took time.Duration
}

// ErrSlowDriver is the error after AnswerLimit. The driver's library cannot be stopped.
var ErrSlowDriver = errors.New("NVIDIA's driver has not answered")

// ThisMachine is the machine as the tuner would see it in a process with these variables.
func ThisMachine(getenv func(string) string) Machine {
	return FindMachine(policyfile.FindMachine, getenv)
}

// FindMachine is ThisMachine by find. It waits for the driver for AnswerLimit at most.
func FindMachine(find FindingMachine, getenv func(string) string) Machine {
	start := time.Now()
	m, err := safefile.Within(new(safefile.Timeouts), "", AnswerLimit, func() (m Machine, err error) {
		m.Here, m.From, err = find(getenv)
		return m, err
	})
	if errors.As(err, new(safefile.NoAnswer)) {
		err = ErrSlowDriver
	}
	m.Err, m.Took = err, time.Since(start)
	return m
}

// LibNCCL and LibRCCL are the names by which the dynamic loader finds NCCL, and AMD's.
const (
	LibNCCL = "libnccl.so.2"
	LibRCCL = "librccl.so.1"
)

// InstalledNCCL says which NCCL a job here would use, 0 if none is found.
func InstalledNCCL() nccl.Version {
	ctx, end := context.WithTimeout(context.Background(), time.Second)
	defer end()
	e := Here()
	for _, name := range append([]string{LibNCCL}, e.PythonNCCLs()...) {
		if lib, err := e.Probe(ctx, name); err == nil && lib.NCCL > 0 {
			return nccl.Version(lib.NCCL)
		}
	}
	return 0
}

// Probe looks at a library as a process of the job would see it.
func (e *Environment) Probe(ctx context.Context, name string) (*probe.Library, error) {
	return probe.Open(ctx, name, e.process)
}

// PythonNCCLs lists the NCCLs of PyTorch's wheels: those of the Python that the environment selects, and of the
// machine's.
func (e *Environment) PythonNCCLs() []string { return e.inPython("nvidia/nccl/lib/" + LibNCCL) }

// PythonRCCLs lists the RCCLs of PyTorch's wheels for AMD, in the same places.
func (e *Environment) PythonRCCLs() []string { return e.inPython("torch/lib/librccl.so*") }

// inPython lists files of packages, by a pattern below site-packages.
func (e *Environment) inPython(pattern string) (paths []string) {
	prefixes := []string{e.Get("VIRTUAL_ENV"), e.Get("CONDA_PREFIX")}
	for _, dir := range filepath.SplitList(e.Get("PATH")) {
		if python, err := filepath.EvalSymlinks(filepath.Join(dir, "python3")); err == nil {
			prefixes = append(prefixes, filepath.Dir(dir), filepath.Dir(filepath.Dir(python)))
			break
		}
	}
	if e.home != "" {
		prefixes = append(prefixes, filepath.Join(e.home, ".local"))
	}
	for _, prefix := range slices.Compact(prefixes) {
		if prefix == "" {
			continue
		}
		matches, _ := filepath.Glob(filepath.Join(prefix, "lib/python3*/*-packages", pattern))
		paths = append(paths, matches...)
	}
	return paths
}
