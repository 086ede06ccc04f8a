package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// Ranks, nodes and hosts are those that the processes were started for.
func TestWorld(t *testing.T) {
	here, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	here, _, _ = strings.Cut(here, ".")
	for _, c := range []struct {
		env     string
		perRank int
		perNode int
		hosts   []string
		want    string
	}{
		{"", 8, 0, nil, "0 of 1, 1 each: HERE"},
		{"", 8, 4, nil, "0 of 1, 1 each: HERE"},
		{"OMPI_COMM_WORLD_SIZE=16 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_LOCAL_SIZE=8", 1, 0, nil,
			"3 of 16, 8 each: HERE HERE-2"},
		{"OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=4", 4, 8, []string{"a", "b"},
			"0 of 4, 2 each: a b"},
		{"SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=20 SLURM_PROCID=19 SLURM_STEP_NUM_NODES=3 " +
			"SLURM_STEP_NODELIST=gpu[08-09,11]", 1, 0, nil, "19 of 20, 7 each: gpu08 gpu09 gpu11"},
		{"SLURM_STEP_ID=0 SLURM_NTASKS=2 SLURM_PROCID=0 SLURM_NNODES=2 SLURM_JOB_NODELIST=a,b[1-2]-x", 8, 0,
			nil, "0 of 2, 1 each: a b1-x"},
		// in an sbatch script
		{"SLURM_PROCID=0 SLURM_NTASKS=16 SLURM_TASKS_PER_NODE=8(x2) SLURM_JOB_NODELIST=n[1-2]", 8, 0, nil,
			"0 of 1, 1 each: n1"},
		{"SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_NTASKS=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=2 " +
			"OMPI_COMM_WORLD_LOCAL_SIZE=2 SLURM_JOB_NODELIST=n[1-2]", 1, 0, nil, "2 of 4, 2 each: n1 n2"},
	} {
		getenv := func(name string) string {
			for v := range strings.FieldsSeq(c.env) {
				if value, ok := strings.CutPrefix(v, name+"="); ok {
					return value
				}
			}
			return ""
		}
		w := findWorld(getenv, c.perRank, c.perNode, slices.Clone(c.hosts))
		got := fmt.Sprintf("%d of %d, %d each: %s", w.rank, w.size, w.local, strings.Join(w.hosts[:w.nodes()], " "))
		if want := strings.ReplaceAll(c.want, "HERE", here); got != want {
			t.Errorf("%s: %s, want %s", c.env, got, want)
		}
	}
}

// Only the process of rank 0 prints.
func TestOtherRanks(t *testing.T) {
	if log := started(t, 0, []string{"OMPI_COMM_WORLD_SIZE=16", "OMPI_COMM_WORLD_RANK=1"},
		"all_reduce_perf"); log != "" {
		t.Errorf("%q", log)
	}
}

// Under the real mpirun.
func TestMPIRun(t *testing.T) {
	mpirun, err := exec.LookPath("mpirun")
	if err != nil {
		t.Skip("SKIPPED: no mpirun here")
	}
	if version, err := exec.Command(mpirun, "--version").Output(); err != nil ||
		!strings.Contains(string(version), "Open MPI") {
		t.Skipf("SKIPPED: %s is not Open MPI's", mpirun)
	}
	// Without an agent it wants ssh, even where it starts nothing elsewhere.
	c := command(t, []string{"FAKEPERF_RANKS_PER_NODE=2", "OMPI_ALLOW_RUN_AS_ROOT=1",
		"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "OMPI_MCA_plm_rsh_agent=sh",
		"OMPI_MCA_orte_tmpdir_base=" + testlib.OpenMPIFolder(t)}, "mpirun")
	c.Args = append(c.Args, "--oversubscribe", "-np", "4", c.Path, "all_gather_perf", "-b", "1M", "-e", "4M", "-f", "2")
	c.Path = mpirun
	log, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	r := read(t, string(log))
	if len(r.Samples) != 6 || r.Samples[0].Nodes != 2 || r.Samples[0].Ranks != 4 ||
		r.Samples[0].Setup.Hosts != "host0 host1" {
		t.Errorf("%s\n%s", rows(r.Samples), log)
	}
}
