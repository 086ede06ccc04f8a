package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testlib"
)

// Without an allocation one is asked for and waited for; each run is a step of it, with as many of its nodes as it
// needs.
func TestSlurm(t *testing.T) {
	testlib.Slurm(t, 4)
	l := mustNew(t, Options{With: Slurm, Args: []string{"-p", "main", "--gpus-per-node=8", "--mpi=none"}})
	if _, err := l.Command(Program{Argv: []string{"true"}, Nodes: 1, RanksPerNode: 1}); err == nil ||
		!strings.Contains(err.Error(), "Prepare first") {
		t.Errorf("%v", err)
	}
	said := prepare(t, l, 3, time.Hour)
	for nodes := 1; nodes <= 3; nodes++ {
		prepare(t, l, nodes, time.Hour)
		out, err := launched(t, l,
			Program{Argv: []string{"sh", "-c", `echo "$SLURM_PROCID $SLURMD_NODENAME $(` + printsAwkward + `)"`},
				Env:   awkward,
				Nodes: nodes, RanksPerNode: 2})
		var want []string
		for rank := range 2 * nodes {
			want = append(want, fmt.Sprintf("%d node%d %s", rank, 1+rank/2, awkwardLine))
		}
		for n, of := range nodesOf(out) { // which of its nodes a job uses is Slurm's choice
			out = strings.ReplaceAll(out, " "+of+" ", fmt.Sprintf(" the node%d ", n+1))
		}
		if got := sortedLines(strings.ReplaceAll(out, " the ", " ")); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v:\n%s\nwant\n%s", err, out, strings.Join(want, "\n"))
		}
	}
	if !strings.Contains(said, "Granted job allocation "+l.Job()) {
		t.Errorf("said %q", said)
	}
	if n, each := l.Processes(3, 8); n != 24 || each != 1 {
		t.Errorf("%d processes with %d GPUs", n, each)
	}
	// There is one job, which goes when it is given back.
	if jobs := queue(t); len(jobs) != 1 {
		t.Errorf("%q", jobs)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	await(t, "an empty queue", func() bool { return len(queue(t)) == 0 })
}

// nodesOf returns the nodes of ranks in the order of their names.
func nodesOf(out string) (nodes []string) {
	for line := range strings.Lines(out) {
		nodes = append(nodes, strings.Fields(line)[1])
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// queue returns the jobs that wait or run.
func queue(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("squeue", "--noheader", "--format=%i %D", "--states=PENDING,RUNNING").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
}

// prepare returns what was said meanwhile.
func prepare(t *testing.T, l *Launcher, nodes int, limit time.Duration) (said string) {
	t.Helper()
	if err := l.Prepare(t.Context(), nodes, time.Minute, limit, func(text string) { said += text + "\n" }); err != nil {
		t.Fatalf("%v, having said %s", err, said)
	}
	return said
}

// A job that does not do is given back.
func TestSlurmJobThatDoesNotDo(t *testing.T) {
	testlib.Slurm(t, 4)
	l := mustNew(t, Options{With: Slurm})
	prepare(t, l, 2, time.Hour)
	first := l.Job()
	if said := prepare(t, l, 1, time.Hour); said != "" || l.Job() != first {
		t.Errorf("job %s and not %s: %s", l.Job(), first, said)
	}
	// More nodes are needed than it has.
	if said := prepare(t, l, 3, time.Hour); !strings.Contains(said, "given back: it has 2 nodes") || l.Job() == first {
		t.Errorf("%s", said)
	}
	// More time is needed than it has left.
	second := l.Job()
	if err := l.Prepare(t.Context(), 3, 2*time.Hour, 3*time.Hour, func(string) {}); err != nil || l.Job() == second {
		t.Errorf("%v", err)
	}
	// It ended meanwhile.
	third := l.Job()
	if out, err := exec.Command("scancel", third).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if prepare(t, l, 3, time.Hour); l.Job() == third {
		t.Error("a job that ended is used")
	}
	if jobs := queue(t); len(jobs) != 1 || jobs[0] != l.Job()+" 3" {
		t.Errorf("%q, want job %s with 3 nodes", jobs, l.Job())
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	// Ctrl-C while a job waits cancels it.
	ctx, cancel := context.WithCancel(t.Context())
	waiting := mustNew(t, Options{With: Slurm, Args: []string{"--hold"}})
	err := waiting.Prepare(ctx, 1, time.Minute, time.Hour, func(text string) {
		if strings.Contains(text, "queued") {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || len(queue(t)) > 0 {
		t.Errorf("%v, %q is left", err, queue(t))
	}
}

// A tunefit that is killed leaves no job behind, whether it runs or waits. This test is that tunefit, in a process of
// its own.
func TestSlurmJobEndsWithTunefit(t *testing.T) {
	if how := os.Getenv("LAUNCH_TEST_PREPARE"); how != "" {
		l := mustNew(t, Options{With: Slurm, Args: strings.Fields(how)})
		err := l.Prepare(t.Context(), 1, time.Minute, time.Hour, func(string) {})
		t.Log(l.Job(), err)
		select {}
	}
	testlib.Slurm(t, 1)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range []string{"--quiet", "--hold"} {
		cmd := exec.Command(self, "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), "LAUNCH_TEST_PREPARE="+how)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, "a job", func() bool { return len(queue(t)) == 1 })
		if how == "--quiet" {
			await(t, "its start", func() bool {
				out, _ := exec.Command("squeue", "--noheader", "--states=RUNNING").Output()
				return len(out) > 0
			})
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		await(t, "an empty queue after "+how, func() bool { return len(queue(t)) == 0 })
	}
}

// What Slurm refuses is said in its words.
func TestSlurmRefuses(t *testing.T) {
	testlib.Slurm(t, 1)
	err := mustNew(t, Options{With: Slurm, Args: []string{"-p", "absent"}}).Prepare(t.Context(), 1, time.Minute,
		time.Hour, func(string) {})
	if err == nil || !strings.Contains(err.Error(), "nvalid partition") {
		t.Errorf("%v", err)
	}
	// More nodes than there are.
	err = mustNew(t, Options{With: Slurm}).Prepare(t.Context(), 2, time.Minute, time.Hour, func(string) {})
	if err == nil || !strings.Contains(err.Error(), "the partition does not allow 2 nodes for 1h0m0s") ||
		len(queue(t)) > 0 {
		t.Errorf("%v, %q is left", err, queue(t))
	}
}

// A job that ends at once is not asked for again and again.
func TestSlurmJobEndsAtOnce(t *testing.T) {
	programs(t, map[string]string{"srun": "", "salloc": "no prolog", "squeue": ""})
	t.Setenv("SLURM_JOB_ID", "")
	err := mustNew(t, Options{With: Slurm}).Prepare(t.Context(), 1, time.Minute, time.Hour, func(string) {})
	if err == nil || !strings.Contains(err.Error(), "salloc gives no job: no prolog (salloc ") {
		t.Errorf("%v", err)
	}
}

// In an allocation its nodes are used, and nothing is submitted.
func TestSlurmInAllocation(t *testing.T) {
	testlib.Slurm(t, 3)
	holder := mustNew(t, Options{With: Slurm})
	prepare(t, holder, 2, time.Hour)
	t.Setenv("SLURM_JOB_ID", holder.Job())
	t.Setenv("SLURM_JOB_NUM_NODES", "2")
	t.Setenv("SLURM_NTASKS_PER_NODE", "7") // of the job, which is not the run's
	t.Setenv("SLURM_EXPORT_ENV", "NONE")
	l := mustNew(t, Options{With: Slurm})
	if said := prepare(t, l, 2, time.Hour); said != "" || len(queue(t)) != 1 {
		t.Errorf("%s, %q", said, queue(t))
	}
	for nodes := 1; nodes <= 2; nodes++ {
		out, err := launched(t, l, Program{Argv: []string{"sh", "-c", `echo $SLURM_JOB_ID $SLURM_PROCID`},
			Nodes: nodes, RanksPerNode: 1})
		var want []string
		for rank := range nodes {
			want = append(want, fmt.Sprint(holder.Job(), " ", rank))
		}
		if got := sortedLines(out); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	if _, err := l.Command(Program{Argv: []string{"true"}, Nodes: 3, RanksPerNode: 1}); err == nil ||
		!strings.Contains(err.Error(), "job "+holder.Job()+", has 2") {
		t.Errorf("%v", err)
	}
}

// How a rank ended comes through, though srun tells of those that were ended because of it; and its node is blamed,
// unless all fail.
func TestSlurmFails(t *testing.T) {
	testlib.Slurm(t, 3)
	l := mustNew(t, Options{With: Slurm})
	prepare(t, l, 3, time.Hour)
	for _, c := range []struct {
		script string
		code   int
		blamed []string
	}{
		{`[ $SLURM_PROCID != 3 ] || exit 7; exec sleep 3600`, 7, []string{"node2"}},
		{`[ $SLURM_PROCID != 5 ] || kill -9 $$; exec sleep 3600`, 128 + 9, []string{"node3"}},
		{`ulimit -c 0; [ $SLURM_PROCID != 0 ] || kill -SEGV $$; exec sleep 3600`, 128 + 11, []string{"node1"}},
		{`trap "" TERM; exit 3`, 3, nil},
		{`exit 0`, 0, nil},
	} {
		// All have begun before one fails: else Slurm, on a busy machine, may end it before the others and wait for
		// these for ever.
		script := `: > "$0/$SLURM_PROCID"; while [ $(ls "$0" | wc -l) -lt 6 ]; do sleep 0.1; done; ` + c.script
		out, err := launched(t, l, Program{Argv: []string{"sh", "-c", script, t.TempDir()}, Nodes: 3, RanksPerNode: 2})
		if code := l.ExitCode(err, []byte(out)); code != c.code {
			t.Errorf("%s: %d (%v), want %d:\n%s", c.script, code, err, c.code, out)
		}
		if got := l.Blame([]byte(out)); !slices.Equal(got, c.blamed) {
			t.Errorf("%s: %q blamed, want %q:\n%s", c.script, got, c.blamed, out)
		}
	}
}

// A run that is ended leaves nothing behind, on any node; the job stays, for the next run.
func TestSlurmIsEnded(t *testing.T) {
	testlib.Slurm(t, 2)
	l := mustNew(t, Options{With: Slurm})
	prepare(t, l, 2, time.Hour)
	mustEnd(t, l, "SLURM_PROCID")
	job := l.Job()
	if prepare(t, l, 2, time.Hour); l.Job() != job {
		t.Errorf("job %s, and then %s", job, l.Job())
	}
}

// A node that is lost during a run is blamed. The job ends with it, and the next one has other nodes.
func TestSlurmLosesNode(t *testing.T) {
	cluster := testlib.Slurm(t, 4)
	l := mustNew(t, Options{With: Slurm})
	prepare(t, l, 3, time.Hour)
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
	if got := l.Blame([]byte(out)); !slices.Equal(got, []string{"node2"}) {
		t.Errorf("%q blamed: %s", got, out)
	}
	if got := l.Blame([]byte("it hung")); !slices.Equal(got, []string{"node2"}) {
		t.Errorf("%q blamed of a log that names none", got)
	}
	job := l.Job()
	prepare(t, l, 3, time.Hour)
	out, err = launched(t, l, Program{Argv: []string{"sh", "-c", `echo $SLURMD_NODENAME`}, Nodes: 3, RanksPerNode: 1})
	if got := sortedLines(out); err != nil || l.Job() == job ||
		!slices.Equal(got, []string{"node1", "node3", "node4"}) {
		t.Errorf("%v, job %s after %s: %s", err, l.Job(), job, out)
	}
}

// What is for the job and what is for its steps is told apart.
func TestSlurmArguments(t *testing.T) {
	l := &Launcher{kind: Slurm, job: &job{id: "7"}, Options: Options{
		Args: []string{"-p", "gpu", "--account=ml", "--gpus-per-node=8", "--mpi=pmix", "--container-image",
			"nccl.sqsh", "-x", "node[3-4]", "-xnode5", "--mem=0"},
		Prefix: []string{"nice"}}}
	t.Setenv("SLURM_JOB_ID", "")
	got := mustCommand(t, l, Program{Argv: []string{"p"}, Env: map[string]string{"A": "b"}, Nodes: 2, RanksPerNode: 8})
	if want := "srun --jobid=7 --nodes=2 --ntasks=16 --ntasks-per-node=8 --kill-on-bad-exit=1 --overlap --export=ALL " +
		"--gpus-per-node=8 --mpi=pmix --container-image nccl.sqsh --mem=0 nice env A=b p"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := cli.ShellWords(l.jobArgs()),
		"-p gpu --account=ml --gpus-per-node=8 -x 'node[3-4]' -xnode5 --mem=0"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
