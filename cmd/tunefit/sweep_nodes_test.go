package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testlib"
)

// playedNodes starts all ranks, one after the other, node by node.
const playedNodes = "for node in node1 node2 node3; do for rank in 1 2; do " +
	"SLURMD_NODENAME=$node {command}; done; done; : {ranks}"

// otherOnNode2 is a container in which paths of node2 lead elsewhere, as on a node without a mount, or end a command.
func otherOnNode2(t *testing.T, elsewhere map[string]string, do string) string {
	t.Helper()
	cases := ""
	for path, other := range elsewhere {
		cases += "    " + path + "*) arg=" + other + "${arg#" + path + "} ;;\n"
	}
	file := testlib.File(t, "container", `#!/bin/sh
if [ "${SLURMD_NODENAME:-$(uname -n)}" = node2 ]; then
  `+do+`
  for arg; do
    shift
    case $arg in
`+cases+`    esac
    set -- "$@" "$arg"
  done
fi
exec "$@"
`)
	if err := os.Chmod(file, 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

// names checks that a sweep ended before its first run, and what it says.
func (c *cluster) names(wants []string, args ...string) {
	c.t.Helper()
	code, _, errs := c.sweep(append([]string{"--coll", "allreduce", "--comm", "3x2", "--sizes", "64K-1M"}, args...)...)
	for _, want := range wants {
		if !strings.Contains(errs, want) {
			c.t.Errorf("it does not say %q:\n%s", want, errs)
		}
	}
	if code != cli.ExitFailed || len(c.runs()) > 0 {
		c.t.Errorf("exit code %d, %d runs\n%s", code, len(c.runs()), errs)
	}
	if _, err := os.Stat(filepath.Join(c.dir, "sweep.csv")); !errors.Is(err, os.ErrNotExist) {
		c.t.Errorf("there is a sweep.csv: %v", err)
	}
}

// lacking is a container in which node2 lacks all that a sweep needs, and what is said of it.
func (c *cluster) lacking() (container string, said []string) {
	nowhere, other := filepath.Join(c.t.TempDir(), "nowhere"), c.t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "preflight.log"), []byte("# of another sweep\n"), 0o644); err != nil {
		c.t.Fatal(err)
	}
	elsewhere := map[string]string{c.perf: nowhere, testlib.Library: nowhere + ".so", c.dir: other}
	return otherOnNode2(c.t, elsewhere, ""), []string{
		"nothing was run: on node2 the sweep's folder " + other + " is not the one that tunefit writes to (-o ",
		"; on node2 there is no tuner library " + nowhere + ".so (--plugin ",
		"; on node2 there is no program " + nowhere + "/all_reduce_perf (--perf-dir ",
		"; on node1, node3 nothing is missing (--hosts, or -x ",
	}
}

// One of several nodes is not like the others: it is named before the first run, with what it lacks and what to do.
func TestSweepNamesTheBrokenNode(t *testing.T) {
	c := newCluster(t)
	container, lacks := c.lacking()
	text := testlib.File(t, "text.so", "no library")
	alone := testlib.File(t, "all_reduce_perf", "no program") // which nobody may execute
	const short = "the launcher did not start a shell on all of 3 nodes: exit code 0: "
	const lost = "ssh: connect to host node2 port 22: No route to host"
	at := func(path, other string) string { return otherOnNode2(t, map[string]string{path: other}, "") }
	for name, test := range map[string]struct {
		container string
		want      []string
	}{
		"nothing":        {container, lacks},
		"not executable": {at(c.perf, filepath.Dir(alone)), []string{"on node2 there is no program " + alone + " ("}},
		"not loaded": {at(testlib.Library, text), []string{"on node2 the tuner library cannot be loaded: " + text,
			"file too short"}},
		"not linked": {at(testlib.Library, unlinked(t)), []string{"on node2 the tuner library cannot be loaded: ",
			"libabsent.so: cannot open shared object file", "(--plugin "}},
		"silent": {otherOnNode2(t, nil, "exit 3"), []string{short + "it printed nothing; node1, node3 answered (see "}},
		"out of reach": {otherOnNode2(t, nil, "echo "+lost+"; exit"),
			[]string{short + lost + "; it names node2; node1, node3 answered (see "}},
	} {
		t.Run(name, func(t *testing.T) {
			c := &cluster{t, c.perf, c.env, c.dir}
			c.names(test.want, "--launch", playedNodes, "--container", test.container)
		})
	}
}

// unlinked is a library that needs another one, which is not there.
func unlinked(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := "echo 'int f(void) { return 1; }' > f.c; echo 'int f(void); int g(void) { return f(); }' > g.c; " +
		"cc -shared -fPIC -o libabsent.so f.c && cc -shared -fPIC -o libneeds.so g.c -L. -labsent && rm libabsent.so"
	cmd := exec.Command("sh", "-c", build)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(dir, "libneeds.so")
}

// So it is through a real Open MPI, where it says, too, which host is out of reach.
func TestSweepNamesTheBrokenNodeOfOpenMPI(t *testing.T) {
	mpirun := []string{"--launch", "mpirun", "--launch-args", strings.Join(testlib.OpenMPI(t), " "), "--hosts"}
	c := newCluster(t)
	container, lacks := c.lacking()
	c.names(lacks, append(mpirun, "node1,node2,node3", "--container", container)...)
	lost := "ssh: connect to host node9 port 22: Connection refused; it names node9 ("
	newCluster(t).names([]string{lost}, append(mpirun, "node1,node9,node3")...)
}

// So it is through a real Slurm: in a job of the sweep's, and in an allocation that has lost a node.
func TestSweepNamesTheBrokenNodeOfSlurm(t *testing.T) {
	slurm := testlib.Slurm(t, 3)
	c := newCluster(t)
	container, lacks := c.lacking()
	c.names(lacks, "--launch", "slurm", "--container", container)
	allocation := exec.Command("salloc", "--quiet", "--nodes=3", "--no-kill", "sh", "-c",
		"echo $SLURM_JOB_ID; exec cat")
	in, err1 := allocation.StdinPipe()
	out, err2 := allocation.StdoutPipe()
	if err := errors.Join(err1, err2, allocation.Start()); err != nil {
		t.Fatal(err)
	}
	id := make([]byte, 10)
	n, err := out.Read(id)
	if err != nil {
		t.Fatal(err)
	}
	slurm.Kill(t, "node2")
	c = newCluster(t, "SLURM_JOB_ID="+strings.TrimSpace(string(id[:n])), "SLURM_JOB_NODELIST=node[1-3]")
	c.names([]string{"nothing was run: the launcher did not start a shell on all of 3 nodes: ", "; it names node2"},
		"--launch", "slurm", "--limit", "1s")
	in.Close()
	_ = allocation.Wait() // it has lost a node
}

// The nodes of a job that takes the place of one that ended are looked at, too.
func TestSweepLooksAtNodesOfTheNextJob(t *testing.T) {
	testlib.Slurm(t, 2)
	c := newCluster(t)
	once := filepath.Join(t.TempDir(), "once")
	container := testlib.File(t, "container", `#!/bin/sh
[ "$1" = /bin/sh ] || ! mkdir `+once+` || scancel $SLURM_JOB_ID
exec "$@"
`)
	if err := os.Chmod(container, 0o755); err != nil {
		t.Fatal(err)
	}
	_, errs := c.done(append(few, "--launch", "slurm", "--container", container)...)
	if n := strings.Count(errs, "preflight: nothing that runs need is missing on node1, node2\n"); n != 2 {
		t.Errorf("it looked %d times\n%s", n, errs)
	}
}

// A second Ctrl-C does not keep a job that waits from being given back.
func TestSweepInterruptedTwice(t *testing.T) {
	bin := t.TempDir()
	for name, does := range map[string]string{
		"srun": "", "squeue": "",
		"salloc": "trap 'kill -INT $PPID; > " + bin +
			"/given; exit 1' HUP; kill -INT $PPID; while :; do sleep 0.1; done",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+does+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// Under nohup a shell inherits an ignored SIGHUP, which it cannot trap (salloc sets its own handler). The children of
	// a process that catches the signal start with the default.
	hangUps := make(chan os.Signal, 1)
	signal.Notify(hangUps, syscall.SIGHUP)
	defer signal.Stop(hangUps)
	c := newCluster(t, "PATH="+bin+":"+os.Getenv("PATH"), "SLURM_JOB_ID=")
	code, _, errs := c.sweep(append(few, "--launch", "slurm")...)
	if code != cli.ExitFailed || !strings.Contains(errs, "tunefit: interrupt signal received (to continue: ") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
	if _, err := os.Stat(filepath.Join(bin, "given")); err != nil {
		t.Errorf("the job is not given back: %v", err)
	}
}
