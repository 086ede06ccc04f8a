package sweep_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

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
	const short = "the launcher was to start a shell on each of 3 nodes: 2 host names answered: node1, node3; " +
		"it ended with exit code 0"
	const lost = "ssh: connect to host node2 port 22: No route to host"
	at := func(path, other string) string { return otherOnNode2(t, map[string]string{path: other}, "") }
	silentNode3 := testlib.File(t, "silent", "#!/bin/sh\n[ $(uname -n) != node3 ] || exit 0\nexec \"$@\"\n")
	if err := os.Chmod(silentNode3, 0o755); err != nil {
		t.Fatal(err)
	}
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
		"silent":       {otherOnNode2(t, nil, "exit"), []string{"nothing was run: " + short + " (see "}},
		"out of reach": {otherOnNode2(t, nil, "echo "+lost+"; exit"), []string{short + ": " + lost + " (see "}},
		"one lacks, one is silent": {silentNode3 + " " + at(c.perf, "/nowhere"),
			[]string{"nothing was run: on node2 there is no program /nowhere/all_reduce_perf (--perf-dir ",
				"; the launcher was to start a shell on each of 3 nodes: 2 host names answered: node1, node2; "}},
	} {
		t.Run(name, func(t *testing.T) {
			c := &cluster{t, c.perf, c.env, c.dir}
			c.names(test.want, "--launch", playedRanks, "--container", test.container)
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
	newCluster(t).names([]string{"each of 3 nodes: none answered; ",
		": ssh: connect to host node9 port 22: Connection refused (see "}, append(mpirun, "node1,node9,node3")...)
}

// So it is through a real Slurm, where a node that is gone is named, too.
func TestSweepNamesTheBrokenNodeOfSlurm(t *testing.T) {
	slurm := testlib.Slurm(t, 3)
	slurm.Allocate(t, "-N", "3", "--gpus-per-node=1", "--exclusive")
	c := newCluster(t)
	container, lacks := c.lacking()
	c.names(lacks, "--launch", "slurm", "--container", container)
	c = newCluster(t)
	c.perf = programsOf(t, c.perf)
	c.names([]string{"nothing was run: on node1, node2, node3 ranks see 1 GPU of the 2 that they need (under Slurm " +
		"salloc or sbatch has to ask for them: --gpus-per-node=2; "}, "--launch", "slurm")
	slurm.PowerOff("node2")
	newCluster(t).names([]string{"nothing was run: the launcher was to start a shell on each of 3 nodes: " +
		"node2 did not answer, node1, node3 did; it ended with exit code ", ": srun: error: Task launch for ",
		" failed on node node2: "}, "--launch", "slurm")
}

// nccl-tests without MPI, started from the host of salloc, run on the node of the allocation, which the first look names.
// Such a sweep does not go on outside of an allocation, and other launchers do not fall back to this host.
func TestSweepInAllocationWithoutMPI(t *testing.T) {
	testlib.Slurm(t, 1).Allocate(t, "-N", "1", "--gpus-per-node=8", "--exclusive")
	c := newCluster(t)
	one := []string{"--coll", "allreduce", "--comm", "1x8", "--sizes", "64K-1M", "--algos", "ring", "--protos", "ll,simple",
		"--channels", "32"}
	_, errs := c.done(one...)
	if !strings.Contains(errs, "preflight: runs measure node1, ") {
		t.Errorf("the first look does not name the node:\n%s", errs)
	}
	for _, run := range c.runs() {
		if !strings.HasPrefix(run.Command, "srun --nodes=1 --ntasks=1 ") {
			t.Errorf("run %d: %s", run.ID, run.Command)
		}
	}
	outside := &cluster{t, c.perf, append(c.env, "SLURM_JOB_ID="), c.dir}
	code, _, errs := outside.sweep("--prove")
	if want := "and there is none (to continue: salloc -N 1 --gpus-per-node=8 --exclusive tunefit sweep -o " + c.dir; code !=
		cli.ExitFailed || !strings.Contains(errs, want) {
		t.Errorf("exit code %d, want %q\n%s", code, want, errs)
	}
	here, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	other := newCluster(t)
	code, _, errs = other.sweep(append(one, "--launch", "{command} # {ranks}")...)
	if code != cli.ExitFailed || len(other.runs()) > 0 || !strings.Contains(errs, "ranks were started on "+here+
		", where tunefit runs, and it is no node of the allocation, job "+os.Getenv("SLURM_JOB_ID")) {
		t.Errorf("exit code %d, %d runs\n%s", code, len(other.runs()), errs)
	}
}

// programsOf is a folder of a program that is not the stand-in, which it starts.
func programsOf(t *testing.T, standIn string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	script := "#!/bin/sh\nexec " + standIn + "/all_reduce_perf \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "all_reduce_perf"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A node has as many GPUs as ranks; the stand-in needs none.
func TestSweepCountsGPUs(t *testing.T) {
	c := newCluster(t)
	real := programsOf(t, c.perf)
	c.perf = real
	c.names([]string{"nothing was run: on node2 ranks see 1 GPU of the 2 that they need (", "--gpus-per-node=2; ",
		"; on node1, node3 nothing is missing ("}, "--launch", playedRanks, "--container",
		otherOnNode2(t, nil, "export PLAYED_GPUS=1"))
	c = newCluster(t)
	c.perf = real
	c.done(append(few, "--launch", playedRanks)...)
	c = newCluster(t, "PLAYED_GPUS=0")
	c.done(append(few, "--launch", playedRanks)...)
}

// A policy for hosts that NCCL takes for one node would never match, so the first run ends the sweep.
func TestSweepOfHostsThatAreOneNode(t *testing.T) {
	c := newCluster(t)
	code, _, errs := c.sweep("--coll", "allreduce", "--comm", "2x8", "--sizes", "64K-1M", "--launch",
		"{ "+playedRanks+"; } | sed 's/nNodes 2 localRanks 8/nNodes 1 localRanks 16/'")
	if code != cli.ExitFailed || len(c.runs()) != 1 ||
		!strings.Contains(errs, "NCCL takes these hosts for one node: --comm 1x16") {
		t.Errorf("exit code %d, %d runs\n%s", code, len(c.runs()), errs)
	}
}
