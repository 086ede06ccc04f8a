package launch

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
)

// perRun are options of srun that each command fills in.
var perRun = regexp.MustCompile(`^(?:-[nN]|--(?:nodes|ntasks|ntasks-per-node)(?:=|$))`)

// findSlurm checks that srun is here, and that no argument would start other ranks than a command says.
func (l *Launcher) findSlurm() error {
	if _, err := lookFor("srun"); err != nil {
		return fmt.Errorf("%w (needed for launcher slurm)", err)
	}
	for _, arg := range l.Args {
		if perRun.MatchString(arg) {
			return fmt.Errorf("argument %s of slurm: nodes and tasks are filled in, run by run", arg)
		}
	}
	return nil
}

// srunCommand starts a step in the present allocation. If one rank fails, the step ends: by default srun waits for the
// others. The step overlaps with other steps, since the shell of the allocation is one, and has the environment even
// in a job of --export=NONE.
func (l *Launcher) srunCommand(p Program) ([]string, error) {
	if has, err := strconv.Atoi(os.Getenv("SLURM_JOB_NUM_NODES")); err == nil && has < p.Nodes {
		return nil, fmt.Errorf("%d nodes are needed, and the allocation, job %s, has %d", p.Nodes,
			os.Getenv(slurmJob), has)
	}
	argv := []string{"srun", "--nodes=" + strconv.Itoa(p.Nodes), "--ntasks=" + strconv.Itoa(p.Nodes*p.RanksPerNode),
		"--ntasks-per-node=" + strconv.Itoa(p.RanksPerNode), "--kill-on-bad-exit=1", "--overlap", "--export=ALL"}
	return append(append(argv, l.Args...), l.program(p, true)...), nil
}

// slurmJob is a variable that Slurm sets in an allocation.
const slurmJob = "SLURM_JOB_ID"

// Allocated reports whether commands have nodes to run on. Those of Slurm need the allocation of this process.
func (l *Launcher) Allocated() bool { return l.kind != Slurm || os.Getenv(slurmJob) != "" }
