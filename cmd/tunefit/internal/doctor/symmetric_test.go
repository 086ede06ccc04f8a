package doctor

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/localenv"
)

// What takes calls past the tuner, or gives them back, is told where it does so, and only there.
func TestDoctorPastTuner(t *testing.T) {
	const beats, off = " beats the tuner: before NCCL 2.31 its LL kernel", "turns off all other symmetric kernels"
	for _, c := range []struct {
		variables string
		want      severity
		words     []string // nil: nothing is told
	}{
		{"NCCL_SYM_KERNEL=AllReduce_AGxLL_R", isWarning, []string{"NCCL_SYM_KERNEL=AllReduce_AGxLL_R" + beats, "hangs"}},
		{"NCCL_SYM_KERNEL=AllGather_LLMC", isWarning, []string{beats}},
		{"NCCL_SYM_KERNEL=reducescatter:reducescatter_ll", isNote, []string{off, "that NCCL_ALGO names"}},
		{"NCCL_SYM_KERNEL=AllReduce_RSxLD_AGxST", isNote, []string{off, "one that differs hangs"}},
		{"NCCL_SYM_KERNEL=ReduceScatter_RailA2A_LsaLD", isNote, []string{off}},
		{"NCCL_SYM_KERNEL=^AllReduce_AGxLL_R", isNote, []string{off}},
		{"NCCL_SYM_KERNEL=^", isFine, nil},
		{"NCCL_SYM_NOWIN_ENABLE=1", isNote, []string{"a row with ll", "first LL call"}},
		{"NCCL_SYM_NOWIN_ENABLE=0", isFine, nil},
		{"NCCL_WIN_ENABLE=0", isNote, []string{"asks the tuner about every call", "others hang"}},
		{"NCCL_WIN_ENABLE=1", isFine, nil},
		{"NCCL_CTA_POLICY=zero", isNote, []string{"copy engines"}},
		{"NCCL_CTA_POLICY=2", isNote, []string{"copy engines"}},
		{"NCCL_CTA_POLICY=DEFAULT", isFine, nil},
		{"NCCL_SYM_CTAS=4", isNote, []string{"channels of all symmetric kernels", "differ silently"}},
		{"NCCL_NTHREADS=256", isNote, []string{"threads of kernels"}},
		{"NCCL_MAX_P2P_NCHANNELS=4", isNote, []string{"sends and receives"}},
	} {
		t.Log(c.variables)
		found := testDoctor(t, "NCCL_DEBUG=INFO", c.variables).examine(t.Context(), only("environment"))
		if c.words != nil {
			mustFind(t, found, "environment", c.want, c.words...)
		} else if len(found) != 1 || found[0].Severity != isFine {
			t.Errorf("%v", found)
		}
	}
	without := testDoctor(t, "NCCL_DEBUG=INFO", "NCCL_WIN_ENABLE=0", "NCCL_SYM_KERNEL=AllGather_LL",
		"NCCL_SYM_NOWIN_ENABLE=1", "NCCL_CTA_POLICY=ZERO", "NCCL_SYM_CTAS=4").examine(t.Context(), only("environment"))
	if len(without) != 1 || !strings.Contains(without[0].Found, "NCCL_WIN_ENABLE=0") {
		t.Errorf("without windows: %v", without)
	}
}

// An NCCL_SYM_KERNEL that a release does not understand is found with that release.
func TestDoctorSymKernel(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		code      int
		variables []string
		want      severity
		words     []string // nil: nothing is told
	}{
		{23007, []string{"NCCL_SYM_KERNEL=AllGather_SD"}, isWarning,
			[]string{"NCCL_SYM_KERNEL=AllGather_SD names no kernel", "All symmetric kernels are off", "AllGather_ST, "}},
		{23007, []string{"NCCL_SYM_KERNEL=allgather:AllGather_ST"}, isWarning, []string{"names no kernel"}},
		{23007, []string{"NCCL_SYM_KERNEL="}, isWarning, []string{"NCCL_SYM_KERNEL= names no kernel"}},
		{23007, []string{"NCCL_SYM_KERNEL=AllGather_ST"}, isFine, nil},
		{23007, []string{"NCCL_SYM_KERNEL=^"}, isFine, nil},
		{22605, []string{"NCCL_SYM_KERNEL=AllGather_SD"}, isFine, nil}, // it has no symmetric kernels
		{23102, []string{"NCCL_SYM_KERNEL=allgather:AllGather_SD"}, isError,
			[]string{`unknown word "AllGather_SD"`, "NCCL 2.31.2 does not start with that"}},
		{23102, []string{"NCCL_SYM_KERNEL=AllGather_ST"}, isError,
			[]string{"leaves its collectives no algorithm", "error 5", "NCCL_ALGO=ring"}},
		{23102, []string{"NCCL_SYM_KERNEL=AllGather_ST", "NCCL_ALGO=ring"}, isFine, nil},
		{23102, []string{"NCCL_SYM_KERNEL=allgather:allgather_st,AllGather_LL"}, isWarning, []string{"error 5"}},
		{23102, []string{"NCCL_SYM_KERNEL="}, isFine, nil},
		{23102, []string{"NCCL_SYM_KERNEL=^"}, isFine, nil},
	} {
		t.Log(c.code, c.variables)
		d := testDoctor(t, c.variables...)
		d.NCCL = gcc(t, filepath.Join(dir, fmt.Sprint(c.code), localenv.LibNCCL),
			fmt.Sprintf("int ncclGetVersion(int *v) { *v = %d; return 0; }", c.code))
		found := d.examine(t.Context(), only("nccl"))
		if c.words != nil {
			mustFind(t, found, "nccl", c.want, c.words...)
		} else if slices.ContainsFunc(found, func(f Finding) bool { return f.Severity >= isWarning }) {
			t.Errorf("%v", found)
		}
	}
}

// Nodes that differ in what no tuner reaches are named, also where each is sound for itself.
func TestAcrossVariables(t *testing.T) {
	for _, variable := range []string{"NCCL_SYM_KERNEL=AllGather_LL", "NCCL_SYM_KERNEL=AllGather_ST",
		"NCCL_SYM_NOWIN_ENABLE=1", "NCCL_WIN_ENABLE=0", "NCCL_CTA_POLICY=ZERO", "NCCL_SYM_CTAS=8", "NCCL_NTHREADS=256",
		"NCCL_MAX_P2P_NCHANNELS=2"} {
		examine := func(variables ...string) []Finding {
			return testDoctor(t, append(variables, "NCCL_DEBUG=WARN")...).examine(t.Context(), only("environment"))
		}
		nodes := map[string][]Finding{"node1": examine(variable), "node2": examine(), "node3": examine(variable)}
		if got := across(t, 3, nodes); !strings.Contains(got, "node[1,3]: "+variable) ||
			!strings.HasSuffix(got, "3 nodes differ in environment\n") {
			t.Errorf("%s", got)
		}
		nodes["node2"] = nodes["node1"]
		if got := across(t, 3, nodes); !strings.HasSuffix(got, "3 nodes agree\n") {
			t.Errorf("%s", got)
		}
	}
}
