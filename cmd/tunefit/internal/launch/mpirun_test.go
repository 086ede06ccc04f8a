package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// openMPINodes returns a launcher of this machine's Open MPI with nodes. It skips where there is none.
func openMPINodes(t *testing.T, hosts ...string) *Launcher {
	t.Helper()
	return mustNew(t, Options{With: MPIRun, Hosts: hosts, Args: testlib.OpenMPI(t)})
}

// sortedLines are a launched program's, which come in any order.
func sortedLines(out string) []string {
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(out), "\n"), func(line string) bool {
		return strings.Contains(line, "Warning: setpgid(") // of mpirun, whose child was faster
	})
	slices.Sort(lines)
	return lines
}

// Each node has its ranks, in order, and each rank the environment and the directory.
func TestMPIRun(t *testing.T) {
	l := openMPINodes(t, "node1", "node2", "node3")
	for nodes := 1; nodes <= 3; nodes++ {
		out, err := launched(t, l,
			Program{Argv: []string{"sh", "-c", `echo "$OMPI_COMM_WORLD_RANK $(hostname) $(` + printsAwkward + `)"`},
				Env:   awkward,
				Nodes: nodes, RanksPerNode: 3})
		var want []string
		for rank := range 3 * nodes {
			want = append(want, fmt.Sprintf("%d node%d %s", rank, 1+rank/3, awkwardLine))
		}
		if got := sortedLines(out); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v:\n%s\nwant\n%s", err, out, strings.Join(want, "\n"))
		}
	}
}

// An exit code and a signal come through, and end the other ranks.
func TestMPIRunFails(t *testing.T) {
	l := openMPINodes(t, "node1", "node2")
	for end, want := range map[string]int{"exit 7": 7, "kill -9 $$": 128 + 9} {
		out, err := launched(t, l,
			Program{Argv: []string{"sh", "-c", `[ "$OMPI_COMM_WORLD_RANK" != 3 ] || ` + end + `; exec sleep 3600`},
				Nodes: 2, RanksPerNode: 2})
		if l.ExitCode(err, []byte(out)) != want {
			t.Errorf("%s: %v, want %d:\n%s", end, err, want, out)
		}
	}
}

// A run that is ended leaves nothing behind, on any node.
func TestMPIRunIsEnded(t *testing.T) {
	mustEnd(t, openMPINodes(t, "node1", "node2"), "OMPI_COMM_WORLD_RANK")
}

// What the user says about places and binding stays; the rest is filled in.
func TestMPIRunCommand(t *testing.T) {
	programs(t, map[string]string{"mpirun": "mpirun (Open MPI) 5.0.3"})
	mpirun := filepath.Join(os.Getenv("PATH"), "mpirun")
	if os.Geteuid() == 0 {
		mpirun += " --allow-run-as-root"
	}
	p := Program{Argv: []string{"all_reduce_perf"}, Nodes: 2, RanksPerNode: 8,
		Env: map[string]string{"NCCL_IB_HCA": "^mlx5_0,mlx5_1"}}
	const end = " env 'NCCL_IB_HCA=^mlx5_0,mlx5_1' all_reduce_perf"
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, " -np 16 --map-by ppr:8:node:oversubscribe --bind-to none" + end},
		{Options{Hosts: []string{"a", "b", "c"}, Args: []string{"--bind-to", "numa"},
			Prefix: []string{"apptainer", "exec", "--nv", "nccl.sif"}},
			" -np 16 --host a:8,b:8 --map-by ppr:8:node:oversubscribe --bind-to numa apptainer exec --nv nccl.sif" +
				end},
		{Options{Args: []string{"--rankfile", "ranks"}}, " -np 16 --rankfile ranks" + end},
	} {
		c.o.With = MPIRun
		if got := mustCommand(t, mustNew(t, c.o), p); got != mpirun+c.want {
			t.Errorf("%+v: %s, want %s%s", c.o, got, mpirun, c.want)
		}
	}
}
