package livejobs_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/livejobs"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// job is some processes that make collectives, each with the real library.
type job struct {
	comm   string // as status names it
	policy string
	ranks  []*exec.Cmd
}

// start begins a job of one communicator that makes some 200 calls a second until it
// is killed.
func start(t *testing.T, ranks int, policy string, env ...string) *job {
	t.Helper()
	return startBy(t, nil, ranks, policy, env...)
}

// startBy has a launcher start each rank, in the test's environment.
func startBy(t *testing.T, launcher []string, ranks int, policy string, env ...string) *job {
	t.Helper()
	testlib.NeedPlugin(t)
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	seed := rand.Uint32()
	j := &job{comm: fmt.Sprintf("%#x", uint64(seed)<<8), policy: policy}
	t.Cleanup(func() { j.kill() })
	var ready sync.WaitGroup
	for r := range ranks {
		words := append(slices.Clone(launcher), testlib.Rank, testlib.Library, filepath.Join(t.TempDir(), "calls"),
			fmt.Sprintf("ranks=%d", ranks), "rate=200", "calls=50000", fmt.Sprintf("id=%d", r),
			fmt.Sprintf("seed=%d", seed))
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Env = append([]string{tuner.EnvConfigFile + "=" + policy}, env...)
		if launcher != nil {
			cmd.Env = append(os.Environ(), env...)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		j.ranks = append(j.ranks, cmd)
		ready.Go(func() {
			for said := bufio.NewScanner(out); said.Scan() && said.Text() != "ready"; {
			}
			fmt.Fprintln(in, "go")
		})
	}
	ready.Wait()
	return j
}

func (j *job) kill(ranks ...int) {
	for i, cmd := range j.ranks {
		if cmd.ProcessState == nil && (len(ranks) == 0 || ranks[0] == i) {
			cmd.Process.Kill()
			cmd.Wait()
		}
	}
}

// stop stops a rank until the function that it returns is called.
func (j *job) stop(t *testing.T, rank int) (resume func()) {
	t.Helper()
	pid := j.ranks[rank].Process.Pid
	syscall.Kill(pid, syscall.SIGSTOP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatal(err, status)
	}
	return func() { syscall.Kill(pid, syscall.SIGCONT) }
}

// status returns what status --json says of the job's communicator, or nil.
func (j *job) status(t *testing.T, args ...string) *livejobs.Communicator {
	t.Helper()
	out, said := tunefit(t, cli.ExitOK, append([]string{"status", "--json"}, args...)...)
	var all []livejobs.Communicator
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatalf("%v: %s%s", err, out, said)
	}
	for i := range all {
		if all[i].Name == j.comm {
			return &all[i]
		}
	}
	return nil
}

// says returns what status says of the job: its line and its notes.
func (j *job) says(t *testing.T, args ...string) string {
	t.Helper()
	return j.saysWith(t, cli.ExitOK, args...)
}

// saysWith is says where status has another exit code.
func (j *job) saysWith(t *testing.T, code int, args ...string) string {
	t.Helper()
	out, _ := tunefit(t, code, append([]string{"status"}, args...)...)
	var mine []string
	for _, part := range strings.Split(out, "\n\n") {
		for line := range strings.Lines(part) {
			if strings.HasPrefix(line, j.comm+" ") {
				mine = append(mine, strings.TrimSpace(line))
			}
		}
		if strings.HasPrefix(part, j.comm+":") || strings.Contains(part, j.policy+" cannot") ||
			strings.Contains(part, ", of ") && strings.Contains(part, j.comm) {
			mine = append(mine, part)
		}
	}
	return strings.Join(mine, "\n")
}

func (j *job) process(rank int) string {
	host, _ := os.Hostname()
	return fmt.Sprintf("%s:%d", host, j.ranks[rank].Process.Pid)
}

func row(channels int) string {
	return fmt.Sprintf("allreduce,0,inf,ring,simple,%d,-1,-1\n", channels)
}
