package sweep_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// A policy that collapses in one of its runs is not proven, whatever the means say.
// What the default does, or both at once, is said. The end of a sweep whose policy holds is how the job itself tells.
func TestSweepProvesSteadiness(t *testing.T) {
	c := newCluster(t, "FAKEPERF_STATE="+filepath.Join(t.TempDir(), "starts"))
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
	env := c.env
	// A slow start is so from its middle on: the third pair of the second start is half.
	const ofPolicy = `run 8 of policy took 2.00 times as long as its other runs at 64KiB - 1MiB, ` +
		`the other side's run beside it 1.00 times \(logs/.*-rep2\.log\)`
	for _, test := range []struct {
		name string
		slow []int // of the three starts, from 1
		said string
		code int
	}{
		{"steady", nil, "", cli.ExitOK},
		{"policy", []int{2}, ofPolicy, cli.ExitFailed},
	} {
		n := len(c.runs())
		var fail []string
		for _, k := range test.slow {
			fail = append(fail, fmt.Sprintf("slow:%d", n+k))
		}
		c.env = append(slices.Clone(env), "FAKEPERF_FAIL="+strings.Join(fail, ","))
		code, out, errs := c.sweep("--prove")
		named := regexp.MustCompile(`(?m)^unsteady: .*`).FindAllString(out, -1)
		if code != test.code || (len(named) > 0) != (test.said != "") ||
			!regexp.MustCompile(test.said).MatchString(strings.Join(named, "\n")) ||
			!strings.Contains(c.file("proof.txt"), strings.Join(named, "\n")) {
			t.Errorf("%s: exit code %d, %q, want %q\n%s%s", test.name, code, named, test.said, out, errs)
		}
		failed := regexp.MustCompile(`policy\.csv is not validated, since it was unsteady:\n` +
			`  allreduce 1x8, float sum out-of-place: ` + test.said).MatchString(errs)
		if failed != (test.code == cli.ExitFailed) {
			t.Errorf("%s: it says\n%s", test.name, errs)
		}
		ends(test.name, out, !failed)
	}
}
