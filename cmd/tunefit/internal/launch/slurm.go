package launch

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// findSlurm checks that Slurm's programs are here, and that no argument sets what this package sets itself.
func (l *Launcher) findSlurm() error {
	needed := []string{"srun"}
	if !inAllocation() {
		needed = append(needed, "salloc", "squeue")
	}
	for _, name := range needed {
		if _, err := lookFor(name); err != nil {
			return fmt.Errorf("%w (needed for launcher slurm)", err)
		}
	}
	for _, arg := range l.Args {
		for _, name := range [][]string{{"--nodes", "-N"}, {"--ntasks", "-n"}, {"--ntasks-per-node"}, {"--jobid"},
			{"--time", "-t"}, {"--pty"}} {
			if has([]string{arg}, name...) {
				return fmt.Errorf("argument %s of slurm: nodes, tasks, job and time are filled in, run by run", arg)
			}
		}
	}
	return nil
}

// srunCommand starts a step in the present allocation. If one rank fails, the step ends: by default srun waits for the
// others. The step overlaps with other steps, since the shell of the allocation is one.
func (l *Launcher) srunCommand(p Program) ([]string, error) {
	argv := []string{"srun"}
	if !inAllocation() {
		if l.job == nil {
			return nil, fmt.Errorf("there is no allocation (needed: Prepare first)")
		}
		if l.job.id != "" {
			argv = append(argv, "--jobid="+l.job.id)
		}
	} else if has, err := strconv.Atoi(os.Getenv("SLURM_JOB_NUM_NODES")); err == nil && has < p.Nodes {
		return nil, fmt.Errorf("%d nodes are needed, and the allocation, job %s, has %d", p.Nodes,
			os.Getenv("SLURM_JOB_ID"), has)
	}
	argv = append(argv, "--nodes="+strconv.Itoa(p.Nodes), "--ntasks="+strconv.Itoa(p.Nodes*p.RanksPerNode),
		"--ntasks-per-node="+strconv.Itoa(p.RanksPerNode), "--kill-on-bad-exit=1", "--overlap")
	if !has(l.Args, "--export") {
		argv = append(argv, "--export=ALL") // a step inherits --export=NONE of its job
	}
	return append(append(argv, l.stepArgs()...), l.program(p, true)...), nil
}

// minutes rounds a time up to minutes, as Slurm reads it.
func minutes(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Minutes()))) }

// Options for salloc only, and for srun only. An option in neither list goes to both. To a step, options of the first
// list mean something else or nothing. salloc does not know those of the second, or they are for the program's
// container.
var (
	jobOnly = []string{"--partition", "-p", "--account", "-A", "--qos", "-q", "--reservation", "--exclusive",
		"--constraint", "-C",
		"--dependency", "-d", "--begin", "-b", "--comment", "--switches", "--nice", "--hold", "-H", "--mail-type",
		"--mail-user", "--wckey",
		"--deadline", "--signal", "--contiguous", "--oversubscribe", "-s", "--nodelist", "-w", "--exclude", "-x",
		"--licenses", "-L"}
	stepOnly = []string{"--mpi", "--cpu-bind", "--mem-bind", "--label", "-l", "--exact", "--overlap",
		"--kill-on-bad-exit", "-K", "--wait", "-W",
		"--unbuffered", "-u", "--resv-ports", "--export", "--accel-bind", "--input", "-i", "--output", "-o", "--error",
		"-e", "--epilog", "--prolog",
		"--task-epilog", "--task-prolog", "--slurmd-debug", "--network", "--distribution", "-m"}
	stepOnlyPrefix = "--container" // of pyxis, and of Slurm's own
)

func (l *Launcher) stepArgs() []string {
	if inAllocation() {
		return l.Args
	}
	return without(l.Args, func(arg string) bool { return has([]string{arg}, jobOnly...) })
}

func (l *Launcher) jobArgs() []string {
	return without(l.Args, func(arg string) bool {
		return has([]string{arg}, stepOnly...) || strings.HasPrefix(arg, stepOnlyPrefix)
	})
}

// without leaves options out, with the arguments after them that are no options: their values.
func without(args []string, out func(string) bool) (kept []string) {
	leaving := false
	for _, arg := range args {
		if strings.HasPrefix(arg, "-") {
			leaving = out(arg)
		}
		if !leaving {
			kept = append(kept, arg)
		}
	}
	return kept
}
