package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// slurmNodes returns a launcher in an allocation of a real Slurm.
func slurmNodes(t *testing.T, nodes int, args ...string) (*Launcher, *testlib.Cluster) {
	t.Helper()
	c := testlib.Slurm(t, nodes)
	if l := mustNew(t, Options{With: Slurm}); l.Allocated() {
		t.Error("there is an allocation before there is one")
	}
	c.Allocate(t, "--exclusive", fmt.Sprintf("--nodes=%d", nodes))
	l := mustNew(t, Options{With: Slurm, Args: args})
	if !l.Allocated() {
		t.Error("there is no allocation")
	}
	return l, c
}

// Each run is a step of the allocation, with as many of its nodes as it needs, whatever the job's own settings are.
func TestSlurm(t *testing.T) {
	l, _ := slurmNodes(t, 3, "--gpus-per-node=8", "--mpi=none")
	t.Setenv("SLURM_NTASKS_PER_NODE", "7")
	t.Setenv("SLURM_EXPORT_ENV", "NONE")
	for nodes := 1; nodes <= 3; nodes++ {
		out, err := launched(t, l,
			Program{Argv: []string{"sh", "-c", `echo "$SLURM_JOB_ID $SLURM_PROCID ` + l.NodeName() +
				` $(` + printsAwkward + `)"`}, Env: awkward, Nodes: nodes, RanksPerNode: 2})
		var want []string
		for rank := range 2 * nodes {
			want = append(want, fmt.Sprintf("%s %d node%d %s", os.Getenv(slurmJob), rank, 1+rank/2, awkwardLine))
		}
		for n, of := range nodesOf(out) { // which of its nodes a job uses is Slurm's choice
			out = strings.ReplaceAll(out, " "+of+" ", fmt.Sprintf(" the node%d ", n+1))
		}
		if got := sortedLines(strings.ReplaceAll(out, " the ", " ")); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v:\n%s\nwant\n%s", err, out, strings.Join(want, "\n"))
		}
	}
	if each := l.PerProcess(8); each != 1 {
		t.Errorf("a process has %d GPUs", each)
	}
	if names := l.NodeNames(3); !slices.Equal(names, []string{"node1", "node2", "node3"}) || l.NodeNames(2) != nil {
		t.Errorf("nodes %q, and %q of two", names, l.NodeNames(2))
	}
	if _, err := l.Command(Program{Argv: []string{"true"}, Nodes: 4, RanksPerNode: 1}); err == nil ||
		!strings.Contains(err.Error(), "job "+os.Getenv(slurmJob)+", has 3") {
		t.Errorf("%v", err)
	}
}

// nodesOf returns the nodes of ranks in the order of their names.
func nodesOf(out string) (nodes []string) {
	for line := range strings.Lines(out) {
		nodes = append(nodes, strings.Fields(line)[2])
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// How a rank ended comes through, though srun tells of those that were ended because of it.
func TestSlurmFails(t *testing.T) {
	l, _ := slurmNodes(t, 3)
	for _, c := range []struct {
		script string
		code   int
	}{
		{`[ $SLURM_PROCID != 3 ] || exit 7; exec sleep 3600`, 7},
		{`[ $SLURM_PROCID != 5 ] || kill -9 $$; exec sleep 3600`, 128 + 9},
		{`ulimit -c 0; [ $SLURM_PROCID != 0 ] || kill -SEGV $$; exec sleep 3600`, 128 + 11},
		{`trap "" TERM; exit 3`, 3},
		{`exit 0`, 0},
	} {
		// All have begun before one fails: else Slurm, on a busy machine, may end it before the others and wait for
		// these for ever.
		script := `: > "$0/$SLURM_PROCID"; while [ $(ls "$0" | wc -l) -lt 6 ]; do sleep 0.1; done; ` + c.script
		out, err := launched(t, l, Program{Argv: []string{"sh", "-c", script, t.TempDir()}, Nodes: 3, RanksPerNode: 2})
		if code := l.ExitCode(err, []byte(out)); code != c.code {
			t.Errorf("%s: %d (%v), want %d:\n%s", c.script, code, err, c.code, out)
		}
	}
}

// A run that is ended leaves nothing behind, on any node; the allocation stays, for the next run.
func TestSlurmIsEnded(t *testing.T) {
	l, _ := slurmNodes(t, 2)
	mustEnd(t, l, "SLURM_PROCID")
	if out, err := launched(t, l, Program{Argv: []string{"true"}, Nodes: 2, RanksPerNode: 1}); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// A run that loses a node has failed.
func TestSlurmLosesNode(t *testing.T) {
	l, cluster := slurmNodes(t, 3)
	dir := t.TempDir()
	var killing sync.WaitGroup
	killing.Go(func() {
		await(t, "3 ranks", func() bool { ranks, _ := filepath.Glob(dir + "/?"); return len(ranks) == 3 })
		cluster.Kill(t, "node2")
	})
	out, err := launched(t, l, Program{Argv: []string{"sh", "-c", `: > "$0/$SLURM_PROCID"; exec sleep 3600`, dir},
		Nodes: 3, RanksPerNode: 1})
	killing.Wait() // the controller learns of it last
	if code := l.ExitCode(err, []byte(out)); code == 0 {
		t.Errorf("exit code 0 (%v): %s", err, out)
	}
}

// What the user says goes to srun as it is, and has the last word.
func TestSlurmCommand(t *testing.T) {
	programs(t, map[string]string{"srun": ""})
	t.Setenv("SLURM_JOB_NUM_NODES", "")
	l := mustNew(t, Options{With: Slurm, Prefix: []string{"nice"},
		Args: []string{"--mpi=pmix", "--cpu-bind=none", "--container-image", "nccl.sqsh", "-x", "node[3-4]", "--export=A"}})
	got := mustCommand(t, l, Program{Argv: []string{"p"}, Env: map[string]string{"A": "b"}, Nodes: 2, RanksPerNode: 8})
	if want := "srun --nodes=2 --ntasks=16 --ntasks-per-node=8 --kill-on-bad-exit=1 --overlap --export=ALL --mpi=pmix " +
		"--cpu-bind=none --container-image nccl.sqsh -x 'node[3-4]' --export=A nice env A=b p"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
