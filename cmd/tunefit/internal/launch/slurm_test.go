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
	if l := mustNew(t, Options{With: Slurm}); l.Allocated("") {
		t.Error("there is an allocation before there is one")
	}
	c.Allocate(t, "--exclusive", fmt.Sprintf("--nodes=%d", nodes))
	l := mustNew(t, Options{With: Slurm, Args: args})
	if !l.Allocated("") {
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

// A shell of salloc runs on the login node. There launcher local starts its one process on a node of the allocation, by
// srun; on such a node it starts it directly.
func TestSlurmLocal(t *testing.T) {
	slurmNodes(t, 2)
	l := mustNew(t, Options{With: Local})
	node := Program{Argv: []string{"sh", "-c", "echo $SLURMD_NODENAME; exit 3"}, Nodes: 1, RanksPerNode: 1}
	out, err := launched(t, l, node)
	lines := strings.Split(out, "\n") // srun's own may come before it
	if !slices.Contains(lines, "node1") && !slices.Contains(lines, "node2") || l.ExitCode(err, []byte(out)) != 3 || l.PerProcess(8) != 8 {
		t.Errorf("%d GPUs a process, %v: %s", l.PerProcess(8), err, out)
	}
	t.Setenv("SLURMD_NODENAME", "login1") // of an earlier job, in which salloc was typed
	if command := mustCommand(t, mustNew(t, Options{With: Local}), node); !strings.HasPrefix(command, "srun ") {
		t.Errorf("elsewhere: %s", command)
	}
	t.Setenv("SLURMD_NODENAME", "node1")
	if command := mustCommand(t, mustNew(t, Options{With: Local}), node); strings.HasPrefix(command, "srun ") {
		t.Errorf("on the node: %s", command)
	}
	t.Setenv("SLURMD_NODENAME", "")
	t.Setenv("PATH", "")
	if _, err := New(Options{With: Local}); err == nil || !strings.Contains(err.Error(), "is no node of the allocation") {
		t.Errorf("without srun: %v", err)
	}
}

// A sweep that began in an allocation goes on only in one: outside it would measure a login node.
func TestAllocated(t *testing.T) {
	programs(t, map[string]string{"mpirun": "mpirun (Open MPI) 5.0.3", "srun": ""})
	t.Setenv(slurmJob, "")
	for _, test := range []struct {
		o            Options
		alone, after bool // without an allocation now: where none was before, and where one was
	}{
		{Options{With: Local}, true, false},
		{Options{With: MPIRun}, true, false},
		{Options{With: MPIRun, Hosts: []string{"node1"}}, true, true},
		{Options{With: Slurm}, false, false},
	} {
		l := mustNew(t, test.o)
		if alone, after := l.Allocated(""), l.Allocated("42"); alone != test.alone || after != test.after {
			t.Errorf("%+v: %v, and %v after a job", test.o, alone, after)
		}
	}
}

// The host where salloc was typed is no node of the allocation: ranks there would measure another machine.
func TestStray(t *testing.T) {
	here, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		job, nodes, node string
		stray            bool
	}{
		{"", "", "", false},
		{"7", "node[1-2]", "", true},
		{"7", "node[1-2]", "login1", true},
		{"7", "node[1-2]", "node2", false}, // which may have another name than the host
		{"7", "node1," + here, "", false},
		{"7", "", "", false},
	} {
		t.Setenv(slurmJob, test.job)
		t.Setenv("SLURM_JOB_NODELIST", test.nodes)
		t.Setenv("SLURMD_NODENAME", test.node)
		if stray := IsStray(here); stray != test.stray || IsStray("another") {
			t.Errorf("%+v: %v", test, stray)
		}
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

// The exit code is that of the rank that failed first. srun's output also names the ranks that it ended because of it.
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

// The user's arguments go to srun unchanged, after ours, and so override them.
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
