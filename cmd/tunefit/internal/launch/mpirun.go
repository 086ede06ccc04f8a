package launch

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/hostlist"
)

// openMPI is what mpirun --version of Open MPI 4 and 5 prints.
var openMPI = regexp.MustCompile(`(?m)^\S+ \(Open MPI\) ([0-9]+)\.`)

// oldestOpenMPI is the first release with --map-by and --timeout as this package uses them.
const oldestOpenMPI = 4

// findMPIRun returns the path of an mpirun of Open MPI.
func findMPIRun(name string) (string, error) {
	path, err := lookFor(name)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	said, err := exec.CommandContext(ctx, path, "--version").CombinedOutput()
	version := openMPI.FindSubmatch(said)
	if version == nil {
		first, _, _ := strings.Cut(strings.TrimSpace(string(said)), "\n")
		return "",
			fmt.Errorf("%s is not Open MPI's: --version says %q, %v (needed: Open MPI %d or newer; any other starts "+
				"by a template: \"%s -n {ranks} -ppn {ranks_per_node} {command}\")",
				path, first, err, oldestOpenMPI, name)
	}
	if release, _ := strconv.Atoi(string(version[1])); release < oldestOpenMPI {
		return "", fmt.Errorf("%s is of Open MPI %d (needed: %d or newer)", path, release, oldestOpenMPI)
	}
	return path, nil
}

// mpirunCommand uses only options that mean the same in Open MPI 4 and 5. If the user's arguments place or bind the
// processes, it adds no option for that.
func (l *Launcher) mpirunCommand(p Program) []string {
	ranks := p.Nodes * p.RanksPerNode
	argv := []string{l.mpirun}
	if os.Geteuid() == 0 && !l.says("allow-run-as-root") {
		argv = append(argv, "--allow-run-as-root")
	}
	argv = append(argv, "-np", strconv.Itoa(ranks))
	if len(l.Hosts) > 0 {
		var hosts []string
		for _, h := range l.Hosts[:p.Nodes] {
			hosts = append(hosts, fmt.Sprintf("%s:%d", h, p.RanksPerNode))
		}
		argv = append(argv, "--host", strings.Join(hosts, ","))
	}
	if !l.says("map-by", "rankfile", "rf", "npernode", "N", "ppr", "pernode") {
		// A node has as many slots as cores, or as --host gives it, and may have more GPUs: so oversubscribe.
		argv = append(argv, "--map-by", fmt.Sprintf("ppr:%d:node:oversubscribe", p.RanksPerNode))
	}
	if !l.says("bind-to", "rankfile", "rf", "bind-to-core", "bind-to-socket") {
		// By default a process is bound to one core, and NCCL's threads with it.
		argv = append(argv, "--bind-to", "none")
	}
	argv = append(argv, l.Args...)
	return append(argv, l.program(p, true)...)
}

// says reports whether the user's arguments have one of these options. mpirun takes each with one or two dashes.
func (l *Launcher) says(names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		return slices.Contains(l.Args, "-"+n) || slices.Contains(l.Args, "--"+n)
	})
}

// lookFor finds a program.
func lookFor(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("there is no %s here: %w", name, err)
	}
	return path, nil
}

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
			Allocation(), has)
	}
	argv := []string{"srun", "--nodes=" + strconv.Itoa(p.Nodes), "--ntasks=" + strconv.Itoa(p.Nodes*p.RanksPerNode),
		"--ntasks-per-node=" + strconv.Itoa(p.RanksPerNode), "--kill-on-bad-exit=1", "--overlap", "--export=ALL"}
	return append(append(argv, l.Args...), l.program(p, true)...), nil
}

// slurmJob is a variable that Slurm sets in an allocation.
const slurmJob = "SLURM_JOB_ID"

// Allocated reports whether commands have nodes to run on. Those of Slurm need the allocation of this process. Others
// need one if earlier commands of the same work had it and no hosts are named: they would run on this machine instead.
func (l *Launcher) Allocated(earlier string) bool {
	return Allocation() != "" || l.kind != Slurm && (earlier == "" || len(l.Hosts) > 0)
}

// Allocation is the number of this process's allocation of Slurm; empty: it has none.
func Allocation() string { return os.Getenv(slurmJob) }

// allocatedElsewhere reports whether this process has an allocation and is on none of its nodes, as a command of
// salloc, which runs on the host where salloc was typed.
func allocatedElsewhere() bool {
	nodes := hostlist.Expand(os.Getenv("SLURM_JOB_NODELIST"))
	return Allocation() != "" && !slices.Contains(nodes, os.Getenv("SLURMD_NODENAME"))
}

// IsStray reports whether a host is this one, and no node of this process's allocation: what runs there measures
// another machine.
func IsStray(host string) bool {
	here, err := os.Hostname()
	nodes := hostlist.Expand(os.Getenv("SLURM_JOB_NODELIST"))
	return err == nil && host == here && allocatedElsewhere() && len(nodes) > 0 && !slices.Contains(nodes, here)
}
