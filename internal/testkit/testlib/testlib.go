// Package testlib is what tests of tunefit and of simulated nccl-tests share: the built library, small files, and
// clusters of Slurm and Open MPI on this machine.
package testlib

import (
	"bytes"
	"compress/gzip"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree/dirstore"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/probe"
)

// Root is the project's folder.
var Root string

// Library is the tuner library that the tests ask, built by the Makefile. It is empty in a build that cannot load one.
var Library string

// Rank is a program that makes calls with the library as a rank of a job does.
var Rank string

// envBuild names the folder where both are built already, for the packages of `make test` to share.
const envBuild = "TEST_BUILD"

// CleanEnvironment removes what NCCL, launchers of jobs and this project's programs read: tests start as in a shell
// that has none of it, and set what they need. TestMain of each package that reads any of it calls it first.
func CleanEnvironment() {
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if slices.ContainsFunc(foreign, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			os.Unsetenv(name)
		}
	}
}

// foreign are beginnings of their names. NCCLX has a variable of its own; torchrun's begin with RANK and the like.
var foreign = []string{"NCCL", "RCCL_", "CUDA_VISIBLE_DEVICES", "FAKEPERF_", "TUNEFIT_", "SLURM", "SBATCH_", "SALLOC_",
	"SRUN_", "SQUEUE_", "SINFO_", "OMPI_", "PMIX_", "PMI_", "TORCHELASTIC_", "MASTER_", "RANK", "LOCAL_RANK",
	"WORLD_SIZE",
	"LOCAL_WORLD_SIZE", "ETCDCTL_"}

// Run builds both, unless they are there, and runs a package's tests in a clean environment.
func Run(m *testing.M) (code int) {
	CleanEnvironment()
	_, here, _, _ := runtime.Caller(0)
	Root, _, _ = strings.Cut(filepath.Dir(here), "/internal/testkit")
	if !probe.Supported {
		return m.Run()
	}
	dir := os.Getenv(envBuild)
	built := dir != ""
	if !built {
		var err error
		if dir, err = os.MkdirTemp("", "tunefit-test-"); err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
	}
	Library, Rank = filepath.Join(dir, "libnccl-tuner-go.so"), filepath.Join(dir, "rank")
	if !built {
		if out, err := exec.Command("make", "-s", "-C", Root, "BUILD="+dir, Library,
			Rank).CombinedOutput(); err != nil {
			os.Stderr.Write(out)
			return 1
		}
	}
	return m.Run()
}

// NeedPlugin skips a test of a build that cannot load the library.
func NeedPlugin(t *testing.T) {
	t.Helper()
	if !probe.Supported {
		t.Skip("SKIPPED: built without cgo, there is no plugin to ask")
	}
}

// FakePerf is a folder of programs that are called like nccl-tests' and need no GPU.
func FakePerf(t *testing.T) string {
	t.Helper()
	NeedPlugin(t)
	build := filepath.Dir(Library)
	if out, err := exec.Command("make", "-s", "-C", Root, "BUILD="+build, filepath.Join(build, "nccl-tests-fakeperf")).
		CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(build, "fakeperf")
}

// File writes a file of the test's own.
func File(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// Zipped is text as gzip packs it.
func Zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Records makes a rendezvous of some records.
func Records(t *testing.T, all map[string]string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "meet")
	AddRecords(t, dir, all)
	return dir
}

// AddRecords adds some.
func AddRecords(t *testing.T, dir string, all map[string]string) {
	t.Helper()
	s, err := dirstore.Open(dir, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for key, value := range all {
		if _, err := s.PutOnce(context.Background(), key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
}

// Measurements reads a file of measurements that says all that there is to know.
func Measurements(path string) (*bench.Result, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return bench.Read(file, path, bench.Options{})
}
