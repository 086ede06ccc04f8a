package doctor

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/localenv"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// What may take collectives past the tuner is told where the environment or the library shows it, and only there.
func TestDoctorBypasses(t *testing.T) {
	for _, c := range []struct {
		variable string
		want     severity
		words    []string // nil: nothing is told
	}{
		{"VLLM_API_KEY=secret", isNote, []string{"VLLM_API_KEY is set: if this is a job of vLLM",
			"--disable-custom-all-reduce", "VLLM_ALLREDUCE_USE_SYMM_MEM=0"}},
		{"SGLANG_PORT=1", isNote, []string{"SGLang", "--enable-mscclpp"}},
		{"TLLM_LOG_LEVEL=INFO", isNote, []string{"TensorRT-LLM", "allreduce_strategy"}},
		{"LD_PRELOAD=/x/libmscclpp_nccl.so", isWarning, []string{"LD_PRELOAD=/x/libmscclpp_nccl.so", "MSCCL++"}},
		{"LD_PRELOAD=/x/libjemalloc.so", isFine, nil},
		{"NCCL_ENQUEUE_REARCH_ENABLE=1", isNote, []string{"NCCL_ENQUEUE_REARCH_ENABLE=1: from NCCL 2.31.2 on it asks the " +
			"tuner once about each call"}},
		{"NCCL_ENQUEUE_REARCH_ENABLE=0", isFine, nil},
		{"MY_VLLM_PORT=1", isFine, nil},
	} {
		d := testDoctor(t, "NCCL_DEBUG=INFO", c.variable)
		found := d.examine(t.Context(), only("environment"))
		if strings.Contains(fmt.Sprint(found), "secret") {
			t.Errorf("%v", found)
		}
		if c.words != nil {
			mustFind(t, found, "environment", c.want, c.words...)
		} else if len(found) != 1 || found[0].Severity != isFine {
			t.Errorf("%s: %v", c.variable, found)
		}
	}

	version := "int ncclGetVersion(int *v) { *v = 22606; return 0; }\n"
	msccl := version + "int mscclLoadAlgo(void) { return 0; }"
	for _, c := range []struct {
		file, source, variables string
		gfx950, msccl           bool
	}{
		{localenv.LibRCCL, msccl, "", true, true},
		{localenv.LibRCCL, msccl, "RCCL_MSCCL_ENABLE=0", true, true}, // MSCCL++ may be apart
		{localenv.LibRCCL, msccl, "RCCL_MSCCL_ENABLE=0 RCCL_MSCCLPP_ENABLE=0", true, false},
		{localenv.LibRCCL, version, "", true, false},
		{localenv.LibNCCL, version, "", false, false},
	} {
		lib := gcc(t, filepath.Join(t.TempDir(), c.file), c.source, "-Wl,-soname,"+c.file)
		d := testDoctor(t, append(strings.Fields(c.variables), "LD_LIBRARY_PATH="+filepath.Dir(lib))...)
		found := d.examine(t.Context(), only("nccl"))
		text := ""
		for _, f := range found {
			text += f.Found + " -> " + f.Do + "\n"
		}
		if strings.Contains(text, "DDA") { // RCCL 2.26 has none
			t.Errorf("%s", text)
		}
		if strings.Contains(text, "gfx950") != c.gfx950 || strings.Contains(text, "RCCL_MSCCL_ENABLE=0") != c.msccl ||
			strings.HasPrefix(text, "RCCL 2.26.6, "+lib) != c.gfx950 {
			t.Errorf("%s with %s:\n%s", c.file, c.variables, text)
		}
		if len(found) == 0 || Failed(found) {
			t.Errorf("%v", found)
		}
	}

	// RCCL's own tuner reads the policy where ours is not found.
	recent := gcc(t, filepath.Join(t.TempDir(), localenv.LibRCCL), "int ncclGetVersion(int *v) { *v = 23004; return 0; }",
		"-Wl,-soname,"+localenv.LibRCCL)
	for _, c := range []struct {
		variables string
		reads     bool
	}{
		{"NCCL_TUNER_CONFIG_FILE=/p.csv", true},
		{"NCCL_TUNER_CONFIG_FILE=/p.csv NCCL_TUNER_PLUGIN=/none/libnccl-tuner-go.so", true},
		{"NCCL_TUNER_CONFIG_FILE=/p.csv NCCL_TUNER_PLUGIN=none", false},
		{"NCCL_TUNER_CONFIG_FILE=/p.csv NCCL_TUNER_PLUGIN=" + testlib.Library, false},
		{"", false},
	} {
		d := testDoctor(t, append(strings.Fields(c.variables), "LD_LIBRARY_PATH="+filepath.Dir(recent))...)
		found := d.examine(t.Context(), only("nccl"))
		mustFind(t, found, "nccl", isNote, "RCCL 2.30.4", "has a tuner of its own, with a table for gfx950")
		if reads := slices.ContainsFunc(found, func(f Finding) bool {
			return f.Severity == isWarning && strings.Contains(f.Found, "its own then reads NCCL_TUNER_CONFIG_FILE=/p.csv")
		}); reads != c.reads {
			t.Errorf("%s: %v", c.variables, found)
		}
	}

	// RCCL's direct access asks no tuner.
	for variables, bypasses := range map[string]bool{"": true, "RCCL_DDA_ENABLE=1": true, "RCCL_DDA_ENABLE=0": false} {
		d := testDoctor(t, append(strings.Fields(variables), "LD_LIBRARY_PATH="+filepath.Dir(recent))...)
		if text := fmt.Sprint(d.examine(t.Context(), only("nccl"))); strings.Contains(text, "set RCCL_DDA_ENABLE=0") != bypasses {
			t.Errorf("%q: %s", variables, text)
		}
	}

	venv := t.TempDir()
	wheel := gcc(t, filepath.Join(venv, "lib/python3.12/site-packages/torch/lib/librccl.so"), msccl)
	mustFind(t, testDoctor(t, "VIRTUAL_ENV="+venv).examine(t.Context(), only("nccl")), "nccl", isNote,
		"PyTorch's RCCL 2.26.6, "+wheel, "gfx950")
}
