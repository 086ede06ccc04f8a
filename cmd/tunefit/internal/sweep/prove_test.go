package sweep_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// A policy that collapses in one of its runs, or gets slower from run to run, is not proven, whatever the means say.
// What the default does, or both at once, is said. The end of a sweep whose policy holds is how the job itself tells.
func TestSweepProvesSteadiness(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	c := newCluster(t, "FAKEPERF_STATE="+starts)
	job := fmt.Sprintf("only the job itself can tell whether it gets faster: run it with NCCL_TUNER_PLUGIN=%s "+
		"NCCL_TUNER_CONFIG_FILE=%s NCCL_TUNER_COMPARE=nccl NCCL_TUNER_RECORD=%s, then tunefit status, or tunefit "+
		"compare %[3]s", testlib.Library, filepath.Join(c.dir, "policy.csv"), filepath.Join(c.dir, "job"))
	ends := func(name, out string, want bool) {
		t.Helper()
		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		if got := lines[len(lines)-1] == job; got != want || strings.Count(out, "only the job") > 1 {
			t.Errorf("%s: it ends with\n%s\nwant this to be %v:\n%s", name, lines[len(lines)-1], want, job)
		}
	}
	sweep := []string{"--coll", "allreduce", "--comm", "1x8", "--sizes", "64K-1M", "--algos", "ring", "--protos",
		"ll,simple", "--channels", "4,32"}
	out, _ := c.done(sweep...)
	ends("without a proof", out, true)
	healthy, env := c.perf, c.env
	drifting := t.TempDir() // with a tuner
	script := "#!/bin/bash\n[ -z \"$NCCL_TUNER_PLUGIN\" ] || export FAKEPERF_DRIFT=0.2\nexec " + healthy +
		"/all_reduce_perf \"$@\"\n"
	if err := os.WriteFile(filepath.Join(drifting, "all_reduce_perf"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	const ofPolicy = `run 4 of policy took 2.00 times as long as its other runs at 256KiB - 1MiB, ` +
		`the other side's run beside it 1.00 times \(logs/.*-rep4-policy\.log\)`
	const drift = `policy drifted: its last run took 1.5\d times as long as its first at 64KiB - 1MiB, ` +
		`the other side's 1.00 times`
	for _, test := range []struct {
		name, perf string
		slow       []int // of the ten runs, from 1; the default comes before the policy
		said       string
		code       int
	}{
		{"steady", healthy, nil, "", cli.ExitOK},
		{"policy", healthy, []int{8}, ofPolicy, cli.ExitFailed},
		{"default", healthy, []int{1}, "run 1 of default took 2.00 times", cli.ExitOK},
		{"both", healthy, []int{7, 8}, "run 4 of policy took 2.00 times .* beside it 2.00 times", cli.ExitOK},
		{"policy, from run to run", drifting, nil, drift, cli.ExitFailed},
	} {
		n := len(c.runs())
		if test.perf == drifting { // its starts are counted so that the last is the slowest
			if err := os.WriteFile(starts, []byte(strings.Repeat("\n", 10)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		var fail []string
		for _, k := range test.slow {
			fail = append(fail, fmt.Sprintf("slow:%d", n+k))
		}
		c.perf, c.env = test.perf, append(slices.Clone(env), "FAKEPERF_FAIL="+strings.Join(fail, ","))
		code, out, errs := c.sweep("--prove")
		named := regexp.MustCompile(`(?m)^unsteady: .*`).FindAllString(out, -1)
		if code != test.code || (len(named) > 0) != (test.said != "") ||
			!regexp.MustCompile(test.said).MatchString(strings.Join(named, "\n")) ||
			!strings.Contains(c.file("proof.txt"), strings.Join(named, "\n")) {
			t.Errorf("%s: exit code %d, %q, want %q\n%s%s", test.name, code, named, test.said, out, errs)
		}
		failed := regexp.MustCompile(`policy\.csv is not proven, since it was unsteady:\n` +
			`  allreduce 1x8, float sum out-of-place: ` + test.said).MatchString(errs)
		if failed != (test.code == cli.ExitFailed) {
			t.Errorf("%s: it says\n%s", test.name, errs)
		}
		ends(test.name, out, !failed)
	}
}
