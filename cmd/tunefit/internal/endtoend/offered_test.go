package endtoend

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// forcedSweep is a sweep on two GPUs of a node, in which tree/ll128 takes a half of the default's time and tree/ll
// two thirds.
func forcedSweep(t *testing.T, gpu, byDefault, also string) (file string) {
	text := "collective,size_bytes,algorithm,protocol,channels,nodes,ranks,selection,time_us,source,gpu_model," +
		"nccl_version\n"
	for _, size := range []int{1 << 18, 1 << 19, 1 << 20} {
		for repetition := range 3 {
			for config, micros := range map[string]int{byDefault + ",4,1,2,default": 300, "tree,ll128,4,1,2,forced": 150,
				"tree,ll,4,1,2,forced": 200} {
				if strings.HasPrefix(config, byDefault) && micros < 300 {
					continue
				}
				text += fmt.Sprintf("allreduce,%d,%s,%d.%d,%d,%s,2.28.9\n", size, config, micros, repetition, repetition, gpu)
			}
		}
	}
	return testlib.File(t, "sweep.csv", text+also)
}

// What NCCL does not offer is not chosen, not planned and not promised, however fast NCCL_PROTO made it; and it is said
// why.
func TestForcedOnly(t *testing.T) {
	const told = "not available on this machine: "
	pcie := []string{"--topo", filepath.Join(testlib.Root, "topo/testdata/pcie2.xml")}
	by := "allreduce,0,tree,ll128,,1,2,forced,,a log,,\n"
	log := testlib.File(t, "shm.log", `NCCL INFO comm 0x1 rank 0 nRanks 2 nNodes 1 localRanks 2 localRank 0 MNNVL 0
host:1:1 [0] NCCL INFO Channel 00 : 0[0] -> 1[1] via SHM/direct
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
      262144         65536     float     sum      -1   300.00    0.87    0.87      0   300.00    0.87    0.87      0
# Out of bounds values : 0 OK
`)
	for name, test := range map[string]struct {
		gpu, byDefault, also string
		with                 []string
		offered              bool
	}{
		"nothing is known":  {"", "ring,simple", "", nil, true},
		"NVLink":            {"NVIDIA A100-SXM4-40GB", "ring,simple", "", nil, true},
		"no NVLink":         {"NVIDIA L4", "ring,simple", "", nil, false},
		"the library's log": {"", "ring,simple", by, nil, false},
		"a topology":        {"", "ring,simple", "", pcie, false},
		"NCCL's log":        {"", "ring,simple", "", []string{log}, false},
		"NCCL chose it":     {"NVIDIA L4", "tree,ll128", by, nil, true},
	} {
		sweep, rows := forcedSweep(t, test.gpu, test.byDefault, test.also), filepath.Join(t.TempDir(), "p.csv")
		out, _ := tunefit(t, cli.ExitOK, append([]string{"fit", sweep, "--csv", rows, "--report", rows + ".html"},
			test.with...)...)
		if said := strings.Contains(out, "allreduce 1x2: "+told+"tree/ll128 (only NCCL_ALGO and NCCL_PROTO get it"); said ==
			test.offered {
			t.Errorf("%s:\n%s", name, out)
		}
		policy := readFile(t, rows)
		if test.byDefault != "tree,ll128" && strings.Contains(policy, "tree,ll128,") != test.offered ||
			strings.Contains(policy, "tree,ll,") != (!test.offered || test.byDefault == "tree,ll128") {
			t.Errorf("%s:\n%s", name, policy)
		}
		if test.offered {
			continue
		}
		if strings.Contains(out, "50 %") || !strings.Contains(out, "9: not available here\n") ||
			!strings.Contains(readFile(t, rows+".html"), told) {
			t.Errorf("%s: promised is\n%s", name, out)
		}
		from := []string{"sweep", "--dry-run", "-o", filepath.Join(t.TempDir(), "sweep"), "--plugin", "lib.so", "--launch",
			"srun -N {nodes} {command}", "--from", sweep}
		for _, with := range test.with {
			if with == log {
				from = append(from, "--from")
			}
			from = append(from, with)
		}
		out, _ = tunefit(t, cli.ExitOK, from...)
		if strings.Contains(out, ",tree,ll128,") || !strings.Contains(out, "# "+told[:len(told)-2]+", and not planned: ") {
			t.Errorf("%s:\n%s", name, out)
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Where NCCL's own choice could not run on the machine of a topology, that is not the one that was measured.
func TestFitOnTopologyWithoutNCCLsChoice(t *testing.T) {
	sweep, out := forcedSweep(t, "", "tree,ll128", ""), filepath.Join(t.TempDir(), "p.csv")
	pcie := filepath.Join(testlib.Root, "topo/testdata/pcie2.xml")
	_, errs := tunefit(t, cli.ExitFailed, "fit", sweep, "--topo", pcie, "--csv", out)
	if !strings.Contains(errs, pcie+" cannot be the measured machine: NCCL itself ran tree/ll128 for allreduce of 256KiB "+
		"on 1x2 there") {
		t.Error(errs)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a policy was written")
	}
}

// A topology of fewer GPUs than ranks ran on a node is not that of the machine that was measured.
func TestFitOnSmallerTopology(t *testing.T) {
	out := filepath.Join(t.TempDir(), "model.json")
	four := filepath.Join(testlib.Root, "configs/topo/pcie-4gpu.xml")
	_, errs := tunefit(t, cli.ExitFailed, "fit", smallSweep, "--topo", four, "-o", out, "--made-with", "2.30.7")
	if !strings.Contains(errs, four+" has 4 GPUs, and 2x8 was measured with 8 ranks on a node: nothing was written") {
		t.Error(errs)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a model was written")
	}
}
