package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/localenv"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// What a value of NCCL_TUNER_PLUGIN makes NCCL load is named, or why nothing is.
func TestDoctorPlugin(t *testing.T) {
	dir := t.TempDir()
	other := gcc(t, filepath.Join(dir, "libnccl-tuner-other.so"), `#include "internal/abi/abi.h"
const struct abi_tuner_v4 ncclTunerPlugin_v4 = {"Other", 0, 0, 0};`)
	gcc(t, filepath.Join(dir, "libnccl-tuner-libabsent.so.so"), `int nothing;`) // NCCL adds nothing to a whole name
	impostor := gcc(t, filepath.Join(dir, "libimpostor.so"), `#include "internal/abi/abi.h"
static int init(size_t ranks, size_t nodes, abi_logger log, void **ctx) { (void)ranks; (void)nodes; (void)log; (void)ctx; return 1; }
const struct abi_tuner_v4 ncclTunerPlugin_v4 = {"Go", init, 0, 0};`)
	none := gcc(t, filepath.Join(dir, "libnone.so"), `int nothing;`)
	crash := gcc(t, filepath.Join(dir, "libcrash.so"),
		`__attribute__((constructor)) static void start(void) { *(volatile int *)8 = 0; }`)
	gcc(t, filepath.Join(dir, "gone/libgone.so.1"), `int gone;`, "-Wl,-soname,libgone.so.1")
	needy := gcc(t, filepath.Join(dir, "libneedy.so"), `extern int gone; int *needs(void) { return &gone; }`,
		filepath.Join(dir, "gone/libgone.so.1"))
	build := filepath.Dir(testlib.Library)
	for _, c := range []struct {
		value, path string // NCCL_TUNER_PLUGIN, LD_LIBRARY_PATH
		want        severity
		words       []string
	}{
		{testlib.Library, "", isFine, []string{testlib.Library, fmt.Sprintf("ABI v2-v%d", nccl.NewestABI)}},
		{"libnccl-tuner-go.so", build, isFine, []string{testlib.Library}},
		{"go", build, isFine, []string{testlib.Library}},
		{"go", "", isError, []string{"go: cannot open", "libnccl-tuner-go.so: cannot open",
			"set NCCL_TUNER_PLUGIN=" + testlib.Library}},
		{"", "", isError, []string{"not set", "libnccl-tuner.so"}},
		{"None", "", isError, []string{"loads no tuner"}},
		{"static_plugin", "", isError, []string{"NCCL loads no tuner"}},
		{"other", dir, isError, []string{other, `"Other"`}},
		{"libabsent.so", dir, isError, []string{"libabsent.so: cannot open"}},
		{impostor, "", isError, []string{"another tuner"}},
		{none, "", isError, []string{none, "no tuner of version 2 to 7"}},
		{needy, "", isError, []string{"libgone.so.1"}},
		{crash, "", isError, []string{"segmentation fault"}},
	} {
		d := testDoctor(t, tuner.EnvPlugin+"="+c.value, "LD_LIBRARY_PATH="+c.path)
		t.Log(c.value, c.path)
		mustFind(t, d.examine(t.Context(), only("plugin")), "plugin", c.want, c.words...)
	}
}

// What lies in the library's way is told: a name that depends on the folder, everybody's right to replace it, and its
// being found by chance.
func TestDoctorPluginPlace(t *testing.T) {
	testlib.NeedPlugin(t)
	content, err := os.ReadFile(testlib.Library)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	copied := filepath.Join(dir, "libnccl-tuner.so")
	if err := os.WriteFile(copied, content, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(copied, 0o777); err != nil {
		t.Fatal(err)
	}
	d := testDoctor(t, "LD_LIBRARY_PATH="+dir)
	findings := d.examine(t.Context(), only("plugin"))
	mustFind(t, findings, "plugin", isWarning, "not set", copied)
	mustFind(t, findings, "plugin", isWarning, "anybody can write "+copied)
	t.Chdir(dir)
	mustFind(t, testDoctor(t, tuner.EnvPlugin+"=./libnccl-tuner.so").examine(t.Context(), only("plugin")), "plugin",
		isWarning, "depends on the folder")
}

// Each NCCL picks its version of the ABI, and what that lacks is told where it matters.
func TestDoctorNCCL(t *testing.T) {
	dir := t.TempDir()
	nccl := func(code int) string {
		return gcc(t, filepath.Join(dir, fmt.Sprint(code), localenv.LibNCCL),
			fmt.Sprintf("int ncclGetVersion(int *v) { *v = %d; return 0; }", code), "-Wl,-soname,"+localenv.LibNCCL)
	}
	rows := testlib.File(t, "p.csv", "collective,algorithm,protocol,chunk_bytes\nallreduce,ring,simple,64K\n")
	named := []string{tuner.EnvPlugin + "=" + testlib.Library, tuner.EnvConfigFile + "=" + rows}
	for _, c := range []struct {
		code  int
		extra string
		want  severity
		words []string
	}{
		{23206, "", isFine, []string{"NCCL 2.32.6", "ABI v7", "symmetric kernels"}},
		{23203, "", isFine, []string{"NCCL 2.32.3", "ABI v6", "(both buffers in registered windows). A program may leave " +
			"the tuner fewer algorithms and channels for a call (ncclCollConfig_t)"}},
		{23102, "NCCL_ALGO=allreduce:ring", isNote,
			[]string{"NCCL_ALGO=allreduce:ring", "turns all symmetric kernels off"}},
		{23104, "", isFine, []string{"ABI v6"}},
		{23003, "", isFine, []string{"ABI v6"}},
		{22907, "", isNote, []string{"ABI v5", "chunk_bytes"}},
		{22803, "", isNote, []string{"ABI v5"}},
		{22706, "", isNote, []string{"ABI v4", "cannot change"}},
		{22706, tuner.EnvReload + "=live", isWarning, []string{"ABI v4", "cannot change"}},
		// nothing else is missing
		{22706, profilerVariable + "=go", isNote, []string{"ABI v4", "windows): chunk_bytes is not used"}},
		{22703, "", isError, []string{"takes no path", "add " + filepath.Dir(testlib.Library) + " to LD_LIBRARY_PATH"}},
		{22703, tuner.EnvPlugin + "=go", isNote, []string{"ABI v4"}},
		{22304, "", isNote, []string{"ABI v3"}},
		{22105, "", isNote, []string{"ABI v2", "costs"}},
		{22005, "", isError, []string{"too old"}},
		{2804, "", isError, []string{"NCCL 2.8.4", "too old"}},
	} {
		d := testDoctor(t,
			append(named, "LD_LIBRARY_PATH="+filepath.Dir(nccl(c.code))+":"+filepath.Dir(testlib.Library), c.extra)...)
		t.Log(c.code, c.extra)
		mustFind(t, d.examine(t.Context(), only("nccl")), "nccl", c.want, c.words...)
	}
	named = named[:1] // nothing that the ABI would have to do
	d := testDoctor(t, append(named, "LD_LIBRARY_PATH="+filepath.Dir(nccl(22706)))...)
	mustFind(t, d.examine(t.Context(), only("nccl")), "nccl", isFine, "ABI v4")

	// Without a tuner the release alone counts.
	d = testDoctor(t, "LD_LIBRARY_PATH="+filepath.Dir(nccl(22706)))
	mustFind(t, d.examine(t.Context(), only("nccl")), "nccl", isFine, "NCCL 2.27.6", "ABI v4")

	// What NCCL 2.31 does not take of a policy, and Meta's NCCL of a tuner.
	rows = testlib.File(t, "q.csv", "collective,algorithm,protocol,channels\nallreduce,ring,simple,8\n"+
		"allgather,ring,simple,8\n")
	asked := append(named, tuner.EnvConfigFile+"="+rows)
	for code, want := range map[int][]string{
		23102: {"fewer than NCCL's own (since 2.31)"},
		23007: {"ABI v6", "channels of an allgather: it may use them unchecked and crash (2.29.2 to 2.30)"},
		22902: {"ABI v5", "channels of an allgather"},
		22901: {"ABI v5"},
	} {
		severity := isNote
		if code == 22901 {
			severity = isFine
		}
		d := testDoctor(t,
			append(asked, "LD_LIBRARY_PATH="+filepath.Dir(nccl(code))+":"+filepath.Dir(testlib.Library))...)
		mustFind(t, d.examine(t.Context(), only("nccl")), "nccl", severity, want...)
	}
	meta := gcc(t, filepath.Join(dir, "meta", localenv.LibNCCL),
		"int ncclGetVersion(int *v) { *v = 23007; return 0; }\nint ncclGlobalRegisterWithPtr;",
		"-Wl,-soname,"+localenv.LibNCCL)
	d = testDoctor(t, append(named, "LD_LIBRARY_PATH="+filepath.Dir(meta), "NCCLX_TUNER_CONFIG_FILE=/x.csv")...)
	findings := d.examine(t.Context(), only("nccl"))
	mustFind(t, findings, "nccl", isError, "NCCLX (Meta's) 2.30.7", "NCCLX_TUNER_CONFIG_FILE=/x.csv", "loads no plugin")

	d = testDoctor(t, named...)
	d.NCCL = gcc(t, filepath.Join(dir, "else.so"), "int nothing;")
	mustFind(t, d.examine(t.Context(), only("nccl")), "nccl", isWarning, "is it NCCL?")
	d.NCCL = filepath.Join(dir, "absent.so")
	mustFind(t, d.examine(t.Context(), only("nccl")), "nccl", isError, "absent.so: no such file", "name the job's")

	venv := t.TempDir()
	wheel := gcc(t, filepath.Join(venv, "lib/python3.12/site-packages/nvidia/nccl/lib", localenv.LibNCCL),
		"int ncclGetVersion(int *v) { *v = 22005; return 0; }")
	d = testDoctor(t, append(named, "VIRTUAL_ENV="+venv)...)
	mustFind(t, d.examine(t.Context(), only("nccl")), "nccl", isError, "PyTorch's NCCL 2.20.5", wheel)
}
