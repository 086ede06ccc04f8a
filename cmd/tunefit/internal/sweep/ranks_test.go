package sweep_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// Jobs start one process a GPU, and so does a sweep on one node where something can: nccl-tests built with MPI, and
// Slurm's allocation or mpirun. --perf-args decide otherwise, and each start is said once before the first run.
func TestSweepStartsProcesses(t *testing.T) {
	bin, built := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"mpirun": "#!/bin/sh\n[ \"$1\" = --version ] && echo 'mpirun (Open MPI) 4.1.4'\n", "srun": "#!/bin/sh\n",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(built, "all_reduce_perf") // needs libmpi.so.40, as the real one
	library := filepath.Join(built, "libmpi.so.40")
	source := testlib.File(t, "x.c", "int main(void) { return 0; }\n")
	for _, args := range [][]string{{"-shared", "-Wl,-soname,libmpi.so.40", "-o", library, source},
		{"-o", program, source, "-Wl,--no-as-needed", library}} {
		if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
			t.Fatalf("gcc: %v\n%s", err, out)
		}
	}
	const hint = "; jobs start one a GPU, whose times may differ\n"
	for name, test := range map[string]struct {
		mpi, mpirun bool
		env         string
		args        []string
		want        []string
	}{
		"mpirun": {mpi: true, mpirun: true, want: []string{"# runs start one process a GPU, by mpirun\n", " -np 8 ", " -g 1 "}},
		"srun": {mpi: true, mpirun: true, env: "SLURM_JOB_ID=1",
			want: []string{"# runs start one process a GPU, by srun\n", "srun --nodes=1 --ntasks=8 ", " -g 1 "}},
		"no allocation": {mpi: true, want: []string{"# runs start one process for 8 GPUs, since there is no mpirun here", hint,
			" -g 8 "}},
		"no MPI": {mpirun: true, want: []string{"since all_reduce_perf is not built with MPI=1" + hint, " -g 8 "}},
		"no MPI in an allocation": {env: "SLURM_JOB_ID=1", mpirun: true,
			want: []string{"since all_reduce_perf is not built with MPI=1" + hint, "srun --nodes=1 --ntasks=1 ", " -g 8 "}},
		"a container": {mpi: true, mpirun: true, args: []string{"--container", "env"},
			want: []string{"since it is not known whether the container has MPI (--launch)" + hint, " -g 8 "}},
		"asked for": {mpi: true, mpirun: true, args: []string{"--perf-args", "-g 8"},
			want: []string{"# runs start one process for 8 GPUs" + hint, "/all_reduce_perf", " -g 8 "}},
		"threads": {mpi: true, mpirun: true, args: []string{"--perf-args", "--nthreads=2"},
			want: []string{"# runs start one process for 2 GPUs" + hint, " -np 4 ", " --nthreads=2 "}},
		"nodes": {mpirun: true, args: []string{"--comm", "2x8", "--launch", "x {ranks} {command}", "--perf-args", "-g 8"},
			want: []string{"# runs start one process for 8 GPUs" + hint, "x 2 env ", " -g 8'"}},
		"bounds": {mpi: true, mpirun: true, env: "NCCL_MAX_CTAS=9", want: []string{
			"# runs start one process a GPU, by mpirun; under NCCL_MAX_CTAS=9, which jobs have to have, too\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, "SLURM_JOB_ID=", "PATH="+bin+":/usr/bin:/bin", test.env)
			if !test.mpirun {
				c.env[len(c.env)-2] = "PATH=/nowhere"
			}
			if test.mpi {
				c.perf = built
			}
			out, errs := c.done(append([]string{"--coll", "allreduce", "--comm", "1x8", "--dry-run"}, test.args...)...)
			for _, want := range test.want {
				if !strings.Contains(out, want) {
					t.Errorf("it does not say %q:\n%s%s", want, out, errs)
				}
			}
			if strings.Count(out, " -g ") > strings.Count(out, "/all_reduce_perf") {
				t.Errorf("-g is given twice:\n%s", out)
			}
		})
	}
	c := newCluster(t)
	for perf, want := range map[string]string{
		"-g 3":      `--perf-args "-g 3" give each process 3 GPUs, and nodes of 1x8 have 8 ranks (allowed: a part of them)`,
		"-t 2 -g 2": `--launch local starts one process, and --perf-args "-t 2 -g 2" give it 4 GPUs of the 8 of 1x8`,
	} {
		code, _, errs := c.sweep("--coll", "allreduce", "--comm", "1x8", "--launch", "local", "--perf-args", perf)
		if code != cli.ExitUsage || !strings.Contains(errs, want) {
			t.Errorf("exit code %d: %s, want %s", code, errs, want)
		}
	}
}

// Calls in CUDA graphs have no host's launch in their times. Samples, policy and report say which were measured.
func TestSweepOfGraphs(t *testing.T) {
	c := newCluster(t)
	c.env = append(c.env, "FAKEPERF_NOISE=0.001")
	args := []string{"--coll", "allreduce", "--comm", "1x8", "--sizes", "64K-1M", "--algos", "ring", "--protos", "ll,simple",
		"--channels", "4,32"}
	c.done(append(args, "--graph")...)
	const options = "-t 1 -g 8 -n 20 -w 1 -G 10"
	for name, want := range map[string]string{"sweep.csv": "," + options + "\n", "report.html": options,
		"plan.yaml": "\ngraph: 10\n", "policy.csv": "\n# measured in CUDA graphs, for jobs that replay graphs\n"} {
		if text := c.file(name); !strings.Contains(text, want) {
			t.Errorf("%s does not have %q:\n%s", name, want, text)
		}
	}
	graphs := filepath.Join(c.dir, "sweep.csv")
	c.dir = filepath.Join(t.TempDir(), "eager")
	c.done(args...)
	if text := c.file("sweep.csv") + c.file("policy.csv"); strings.Contains(text, " -G ") || strings.Contains(text, "graphs") {
		t.Errorf("of eager runs:\n%s", text)
	}
	tunefit(t, cli.ExitFailed, "fit", graphs, filepath.Join(c.dir, "sweep.csv"))
	tunefit(t, cli.ExitOK, "fit", graphs, filepath.Join(c.dir, "sweep.csv"), "--runs", "graph")
	for _, wrong := range [][]string{{"--graph=-1"}, {"--graph", "--perf-args", "-G 4"}, {"--graph=x"}} {
		code, _, errs := c.sweep(append(args, wrong...)...)
		if code != cli.ExitUsage || !strings.Contains(errs, "--graph") {
			t.Errorf("%q: exit code %d\n%s", wrong, code, errs)
		}
	}
}

// Processes that MPI does not connect measure nothing, and the sweep says what may connect them.
func TestSweepOfRanksThatAreAlone(t *testing.T) {
	c := newCluster(t)
	script := "#!/bin/sh\n[ \"$1\" != --help ] || exec " + c.perf + "/all_reduce_perf --help\necho 'a:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 1 cudaDev 0 busId 10 commId " +
		"0x1 - Init COMPLETE'\n"
	c.perf = t.TempDir()
	if err := os.WriteFile(filepath.Join(c.perf, "all_reduce_perf"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	code, _, errs := c.sweep("--coll", "allreduce", "--comm", "1x8", "--launch", playedRanks)
	if code != cli.ExitFailed || len(c.runs()) != 1 || !strings.Contains(errs, "each process is alone: NCCL's "+
		"communicators have 1 rank, and not 8 (see ") || !strings.Contains(errs, "--mpi=pmix") {
		t.Errorf("exit code %d, %d runs\n%s", code, len(c.runs()), errs)
	}
}
