// Package launch writes the command that starts a program's ranks: on this machine, by Open MPI, in the allocation of
// Slurm that it runs in, or by a template. From a run's output it reads how the run ended. SIGTERM ends what its
// commands started, on all nodes.
package launch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/hostlist"
)

// The names of launchers, besides a template.
const (
	Local  = "local"
	MPIRun = "mpirun"
	Slurm  = "slurm"
)

// Options say how ranks are started.
type Options struct {
	// With is Local, MPIRun or the path of an mpirun, Slurm, or a template: a command for the shell with {command} in
	// it. Local is this machine, or the node of the allocation of Slurm that this process has.
	With string
	// Args are more arguments of mpirun or srun ("--mpi=pmix").
	Args []string
	// Hosts are those that mpirun uses, in this order, and the template's {hosts}. None: those that mpirun finds.
	Hosts []string
	// Prefix is the command of a container that the program runs in. It comes between the launcher and the program.
	Prefix []string
}

// Program is what runs.
type Program struct {
	Argv         []string
	Env          map[string]string // on top of what the launcher passes on
	Unset        []string          // variables that the launcher may pass on, and that the program does not get
	Nodes        int               // 1 or more
	RanksPerNode int               // processes of a node, 1 or more
}

// Launcher starts programs in one way.
type Launcher struct {
	Options
	kind     string // Local, MPIRun, Slurm or template
	mpirun   string // the program
	template []part
}

const template = "template"

// allowed is what With may be.
const allowed = `local, mpirun, the path of an mpirun, slurm, or a command with {command} in it, ` +
	`as "pdsh -R exec -w {hosts} ssh %h '{command}'"`

// New checks that the options can start anything.
func New(o Options) (*Launcher, error) {
	l := &Launcher{Options: o}
	switch {
	case strings.ContainsAny(o.With, "{ "):
		l.kind = template
	case filepath.Base(o.With) == MPIRun:
		l.kind = MPIRun
	case o.With == Local && allocatedElsewhere():
		l.kind = Slurm
	case o.With == Local || o.With == Slurm:
		l.kind = o.With
	case slices.Contains([]string{"srun", "sbatch", "salloc"}, o.With):
		return nil, fmt.Errorf("launcher %q: name it slurm (that uses srun, in an allocation)", o.With)
	default:
		return nil, fmt.Errorf("unknown launcher %q (allowed: %s)", o.With, allowed)
	}
	if len(o.Args) > 0 && l.kind != MPIRun && l.kind != Slurm {
		return nil, fmt.Errorf("launcher %q takes no extra arguments (given: %q; mpirun and slurm take some)",
			o.With, o.Args)
	}
	if len(o.Hosts) > 0 && (l.kind == Local || l.kind == Slurm) {
		do := "Slurm chooses them; an argument -w node[1-4] names some"
		if l.kind == Local {
			do = "it uses this machine"
		}
		return nil, fmt.Errorf("launcher %q takes no hosts (%s)", o.With, do)
	}
	for i, h := range o.Hosts {
		if !hostName.MatchString(h) {
			return nil, fmt.Errorf("%q is no host (needed: names or addresses, without slots or brackets)", h)
		}
		if slices.Contains(o.Hosts[:i], h) {
			return nil, fmt.Errorf("host %s is named twice", h)
		}
	}
	if len(o.Prefix) > 0 && l.kind == Local { // other launchers start it on other machines
		if _, err := lookFor(o.Prefix[0]); err != nil {
			return nil, err
		}
	}
	var err error
	switch l.kind {
	case template:
		l.template, err = parseTemplate(o.With, len(o.Hosts) > 0)
	case MPIRun:
		l.mpirun, err = findMPIRun(o.With)
	case Slurm:
		if err = l.findSlurm(); err != nil && o.With == Local {
			err = fmt.Errorf("this host is no node of the allocation, job %s, whose GPUs are to be used: %w",
				Allocation(), err)
		}
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

var hostName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// PerProcess says how many of a node's GPUs a process has. With Local one process has all, which needs no MPI; else a
// process has one.
func (l *Launcher) PerProcess(perNode int) int {
	if l.With == Local {
		return perNode
	}
	return 1
}

// String names what starts the processes.
func (l *Launcher) String() string {
	switch l.kind {
	case template:
		return "the command of --launch"
	case Slurm:
		return "srun"
	}
	return l.kind
}

// Command returns the command that starts a program.
func (l *Launcher) Command(p Program) ([]string, error) {
	if len(l.Hosts) > 0 && p.Nodes > len(l.Hosts) {
		return nil, fmt.Errorf("%d nodes are needed, and there are %d hosts: %s", p.Nodes, len(l.Hosts),
			strings.Join(l.Hosts, " "))
	}
	if l.With == Local && (p.Nodes > 1 || p.RanksPerNode > 1) {
		return nil, fmt.Errorf("%d nodes with %d processes each: launcher local starts one process on one machine "+
			"(more start: mpirun, slurm, a template)", p.Nodes, p.RanksPerNode)
	}
	switch l.kind {
	case MPIRun:
		return l.mpirunCommand(p), nil
	case Slurm:
		return l.srunCommand(p)
	case template:
		return []string{"/bin/sh", "-c", l.fill(p)}, nil
	}
	return l.program(p, true), nil
}

// program is what the launcher starts: the container, and in it the program with its environment. The environment is
// set there because some containers do not pass it on, and because launchers differ in how they read commas and quotes
// in a value.
func (l *Launcher) program(p Program, withEnv bool) []string {
	argv := slices.Clone(l.Prefix)
	var words []string
	for _, name := range p.Unset {
		words = append(words, "-u", name)
	}
	if withEnv {
		words = append(words, cli.Assignments(p.Env)...)
	}
	if len(words) > 0 {
		argv = append(append(argv, "env"), words...)
	}
	return append(argv, p.Argv...)
}

// NodeName is how a shell that a command starts finds the name of its node. Slurm's own name for it is that of its
// lists. Other launchers may pass on a variable of the node that they were started on.
func (l *Launcher) NodeName() string {
	if l.kind == Slurm {
		return "${SLURMD_NODENAME:-$(uname -n)}"
	}
	return "$(uname -n)"
}

// NodeNames returns the names of the nodes that a command for so many uses; nil: they are not known.
func (l *Launcher) NodeNames(nodes int) []string {
	names := l.Hosts[:min(nodes, len(l.Hosts))]
	if len(names) == 0 {
		names = hostlist.Expand(os.Getenv("SLURM_JOB_NODELIST"))
	}
	if len(names) != nodes { // it uses some of them
		return nil
	}
	return names
}

// exitOf returns a command's exit code, or like a shell 128 plus the number of the signal that ended it. It returns
// -1 if the command was not started.
func exitOf(err error) int {
	if err == nil {
		return 0
	}
	exit := (*exec.ExitError)(nil)
	if !errors.As(err, &exit) {
		return -1
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}

// ExitCode reads how a launcher's command ended from the error of exec.Cmd and from its output. It is the program's
// exit code, 128 plus the number of the signal that ended it, or -1 if there is neither. Under Slurm it is that of the
// first rank that failed. srun itself returns the largest code, even of a rank that it ended, and 0 when a node is
// lost.
func (l *Launcher) ExitCode(err error, log []byte) int {
	code := exitOf(err)
	if l.kind != Slurm {
		return code
	}
	if m := firstOfSlurm.FindSubmatch(log); m != nil {
		how := string(m[2])
		if n, err := strconv.Atoi(strings.TrimPrefix(how, "Exited with exit code ")); err == nil {
			return n
		}
		how, _, _ = strings.Cut(how, " (core dumped)")
		for s := syscall.Signal(1); s < 32; s++ {
			if strings.EqualFold(s.String(), how) {
				return 128 + int(s)
			}
		}
	}
	if code == 0 && abortedBySlurm.Match(log) {
		return -1
	}
	return code
}

var (
	firstOfSlurm   = regexp.MustCompile(`srun: error: (\S+): tasks? [0-9,-]+: ([^\n]+)`)
	abortedBySlurm = regexp.MustCompile(`srun: (?:error: Node failure on |Job step aborted)`)
)
