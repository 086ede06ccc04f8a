package sweep_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/sweep"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// What is missing on a node is said before the first run, with what to do. What only NCCL finds ends the sweep at its
// first run. The same command goes on once that is mended: nothing was given up for it.
func TestSweepSetUp(t *testing.T) {
	c := newCluster(t)
	real := c.perf
	missing := filepath.Join(t.TempDir(), "nothing")
	broken := testlib.File(t, cli.LibraryName, "no library")
	for name, test := range map[string]struct {
		perf string
		args []string
		want []string
	}{
		"no programs": {missing, nil, []string{"there is no program " + missing + "/all_reduce_perf; on ",
			"/broadcast_perf (--perf-dir names"}},
		"no library": {real, []string{"--plugin", broken}, []string{"the tuner library cannot be loaded: " + broken,
			"file too short", "(--plugin names"}},
		"no launcher": {real, []string{"--launch", "exec /no/such/launcher {ranks} {command}"},
			[]string{"the launcher was to start a shell on each of 1 node: none answered; it ended with exit code 127: ",
				"/no/such/launcher", "--launch"}},
		"no shell": {real, []string{"--launch", "true {ranks} {command}"},
			[]string{"none answered; it ended with exit code 0 (see "}},
		"one shell": {real, []string{"--comm", "2x8", "--launch", "{command} # {ranks}"},
			[]string{"each of 2 nodes: 1 host name answered: "}},
		"bad end": {real, []string{"--launch", "{command}; exit 3 # {ranks}"},
			[]string{"each of 1 node: all answered; it ended with exit code 3 (see "}},
		"no hosts": {real, []string{"--comm", "1x8,4x8", "--hosts", "a,b", "--launch", "ssh {hosts} {command}"},
			[]string{"4 nodes are needed, and there are 2 hosts"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.perf, c.dir = test.perf, filepath.Join(t.TempDir(), "sweep")
			code, _, errs := c.sweep(append([]string{"--coll", "allreduce,broadcast", "--comm", "1x8", "--prove=3"},
				test.args...)...)
			again := "(to continue: tunefit sweep -o " + c.dir + " --prove=3), once that is mended: an option that is " +
				"given again replaces the one in " + c.dir + "/plan.yaml\n"
			for _, want := range append(test.want, again) {
				if !strings.Contains(errs, want) {
					t.Errorf("it does not say %q:\n%s", want, errs)
				}
			}
			if code != cli.ExitFailed || len(c.runs()) > 0 {
				t.Errorf("exit code %d, %d runs", code, len(c.runs()))
			}
		})
	}
	t.Run("variables of the nodes", func(t *testing.T) {
		c := newCluster(t, "SLURMD_NODENAME=head") // which launchers that pass all variables on give to each node
		code, _, errs := c.sweep("--coll", "allreduce", "--comm", "2x8", "--sizes", "4K-16M", "--launch",
			"NCCL_PROTO=LL "+playedRanks)
		if len(c.runs()) != 1 || code != cli.ExitFailed ||
			!strings.Contains(errs, "NCCL's default, and variables decided") {
			t.Errorf("exit code %d, %d runs\n%s", code, len(c.runs()), errs)
		}
		c.done("--launch", playedRanks)
	})
	t.Run("not loaded", func(t *testing.T) {
		c := newCluster(t, "FAKEPERF_FAIL=plugin-not-loaded")
		args := []string{"--coll", "allreduce", "--comm", "2x8", "--sizes", "4K-16M", "--algos", "ring", "--protos",
			"ll", "--channels", "4,32", "--launch", playedRanks}
		code, _, errs := c.sweep(args...)
		if runs := c.runs(); code != cli.ExitFailed || len(runs) != 1 || runs[0].Outcome != sweep.Stopped ||
			!strings.Contains(errs, "NCCL did not load the tuner library") {
			t.Errorf("exit code %d, %d runs\n%s", code, len(runs), errs)
		}
		c.env = c.env[:len(c.env)-1]
		c.done()
		if text := c.file("sweep.csv"); !strings.Contains(text, ",ring,ll,4,") {
			t.Errorf("what was not loaded once is not measured later:\n%s", text)
		}
	})
}

// A dry run needs no allocation, and says how to get one.
func TestSweepDryRunWithoutAnAllocation(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "srun"), []byte("#!/bin/sh\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, "PATH="+bin+":"+os.Getenv("PATH"), "SLURM_JOB_ID=")
	out, _ := c.done("--coll", "allreduce", "--comm", "2x8", "--launch", "slurm", "--dry-run")
	for _, want := range []string{"# there is no allocation: salloc -N 2 --gpus-per-node=8 --exclusive gets one",
		"\nsrun --nodes=2 "} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
}

// Where nothing but the default could be measured it says so.
func TestSweepOfTheDefaultOnly(t *testing.T) {
	c := newCluster(t)
	code, _, errs := c.sweep("--coll", "allreduce", "--comm", "1x8", "--sizes", "4K-1M", "--algos", "nvls")
	if code != cli.ExitFailed || !strings.Contains(errs, "only the default was measured, so there is no policy") ||
		!strings.Contains(c.file("sweep.csv"), ",default,") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
}
