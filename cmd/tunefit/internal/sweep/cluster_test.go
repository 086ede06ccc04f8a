package sweep_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/sweep"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// measuredGrid is real: AllReduce on one and two nodes, each configuration and the default.
const measuredGrid = "../../../../docs/measured/mi355x-allreduce.csv"

// playedPrograms is a folder of programs that play a cluster on one machine: a launcher, the names of nodes, and GPUs.
const playedPrograms = "testdata/played"

// playedRanks starts one process a node, the first of the ranks there.
const playedRanks = playedPrograms + "/launch {nodes} {ranks_per_node} {command}"

// playedPath is a PATH on which programs that are played come first.
func playedPath(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(playedPrograms)
	if err != nil {
		t.Fatal(err)
	}
	return dir + ":" + os.Getenv("PATH")
}

// cluster is where a sweep runs: the stand-in for nccl-tests, and what is to happen to it.
type cluster struct {
	t    *testing.T
	perf string // folder of the programs
	env  []string
	dir  string // of the sweep
}

func newCluster(t *testing.T, env ...string) *cluster {
	grid, err := filepath.Abs(measuredGrid)
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{t, testlib.FakePerf(t), append([]string{"FAKEPERF_GRID=" + grid, "FAKEPERF_NOISE=0"}, env...),
		filepath.Join(t.TempDir(), "sweep")}
}

// sweep runs tunefit sweep as a process of its own.
func (c *cluster) sweep(args ...string) (code int, stdout, stderr string) {
	c.t.Helper()
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{"sweep", "-o", c.dir, "--plugin", testlib.Library, "--perf-dir", c.perf},
		args...)...)
	cmd.Env = append(append(os.Environ(), testkit.AsTunefit+"=1", "PATH="+playedPath(c.t)), c.env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		c.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// done runs it to its end.
func (c *cluster) done(args ...string) (stdout, stderr string) {
	c.t.Helper()
	code, stdout, stderr := c.sweep(args...)
	if code != cli.ExitOK {
		c.t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
	}
	return stdout, stderr
}

// runs are those in the journal.
func (c *cluster) runs() (runs []sweep.Run) {
	c.t.Helper()
	file, err := os.Open(filepath.Join(c.dir, "journal.jsonl"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l struct {
			Begin *sweep.Run
			End   *struct {
				Run int
				sweep.End
			}
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			c.t.Fatal(err)
		}
		switch {
		case l.Begin != nil:
			runs = append(runs, *l.Begin)
		case l.End != nil:
			runs[l.End.Run-1].End = l.End.End
		}
	}
	return runs
}

// outcomes are how the runs ended, without what went well.
func (c *cluster) outcomes() (all []string) {
	for _, r := range c.runs() {
		if r.Outcome != sweep.Measured {
			name := strings.TrimSuffix(filepath.Base(r.Log)[len("00000-"):], ".log")
			all = append(all, fmt.Sprintf("%s %s: %s", name, r.Outcome, r.Reason))
		}
	}
	return all
}

// seconds are what the runs would take on the cluster that is played.
func (c *cluster) seconds(comm string) (sum float64) {
	c.t.Helper()
	logs, err := filepath.Glob(filepath.Join(c.dir, "logs", "*-allreduce-"+comm+"-*"))
	if err != nil || len(logs) == 0 {
		c.t.Fatalf("no logs of %s (%v)", comm, err)
	}
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			c.t.Fatal(err)
		}
		m := regexp.MustCompile(`would take ([0-9.]+) s`).FindSubmatch(text)
		if m == nil {
			c.t.Fatalf("%s does not say what it would take", log)
		}
		s, err := strconv.ParseFloat(string(m[1]), 64)
		if err != nil {
			c.t.Fatal(err)
		}
		sum += s
	}
	return sum
}

func (c *cluster) file(name string) string {
	c.t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}
