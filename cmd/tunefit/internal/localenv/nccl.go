package localenv

import (
	"context"
	"path/filepath"
	"slices"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/host"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

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
func (e *Environment) Probe(ctx context.Context, name string) (*host.Library, error) {
	return host.Probe(ctx, name, e.process)
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
