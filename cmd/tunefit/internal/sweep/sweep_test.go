package sweep_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/sweep"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// From nothing to a policy that is proven, on the times of a real cluster: in a part of the time that measuring all
// takes, near the best that there is, and nowhere slower than the default.
func TestSweep(t *testing.T) {
	if testing.Short() {
		t.Skip("a whole sweep")
	}
	c := newCluster(t)
	// the same noise each time
	c.env = append(c.env, "FAKEPERF_NOISE=0.003", "FAKEPERF_STATE="+filepath.Join(t.TempDir(), "starts"))
	c.done("--coll", "allreduce", "--comm", "1x8,2x8", "--sizes", "4K-512M", "--channels", "1,2,4,8,16,24,32,40,48,56",
		"--launch", playedRanks)
	truth, err := testlib.Measurements(measuredGrid)
	if err != nil {
		t.Fatal(err)
	}
	for nodes, comm := range map[int]string{1: "1n-8r", 2: "2n-16r"} {
		const start, calls = 5, 42 // seconds, and calls of each size: 20 and 1 to warm up, in place and out of place
		whole, configs := 0.0, map[string]bool{}
		for _, s := range truth.Samples {
			if s.Nodes != nodes || s.InPlace || s.Bytes < 4<<10 {
				continue
			}
			whole += calls * s.Micros / 1e6
			configs[fmt.Sprint(s.Algo, s.Proto, s.Channels, s.Selection)] = true
		}
		whole += start * float64(len(configs))
		share := c.seconds(comm) / whole
		t.Logf("%d nodes: %.3f of the time of the whole grid", nodes, share)
		if share > 0.13 {
			t.Errorf("%d nodes: it takes %.3f of the time that measuring all takes", nodes, share)
		}
	}
	var judged []struct {
		Nodes  int
		Policy struct{ Mean, Max float64 }
		Slower int     `json:"slower_than_default"`
		Worst  float64 `json:"worst_vs_default"`
	}
	out, _ := tunefit(t, cli.ExitOK, "check", "--json", filepath.Join(c.dir, "policy.csv"), "--measured", measuredGrid)
	if err := json.Unmarshal([]byte(out), &judged); err != nil {
		t.Fatal(err)
	}
	for _, j := range judged {
		t.Logf("%d nodes: %.4f of the best time, at most %.3f", j.Nodes, j.Policy.Mean, j.Policy.Max)
		if j.Policy.Mean > 1.005 || j.Slower > 0 {
			t.Errorf("%d nodes: %.4f of the best time, %d sizes slower than the default, %.3f", j.Nodes, j.Policy.Mean,
				j.Slower, j.Worst)
		}
	}
	for _, name := range []string{"model.json", "report.html", "sweep.csv", "plan.yaml"} {
		if c.file(name) == "" {
			t.Errorf("%s is empty", name)
		}
	}
	// Again there is nothing to do.
	before := len(c.runs())
	if c.done(); len(c.runs()) != before {
		t.Errorf("%d more runs", len(c.runs())-before)
	}
	_, errs := c.done("--prove=2")
	if after := len(c.runs()) - before; after != 2*2 ||
		!strings.Contains(c.file("proof.txt"), "all: geometric mean of") {
		t.Errorf("%d runs of proof\n%s%s", after, errs, c.file("proof.txt"))
	}
}

// While the machine becomes faster and slower again from start to start, no row takes that for a gain, and none is
// missing, since all configurations of a start share it with the default. What varies from time to time is left to NCCL,
// and named.
func TestSweepWhileTheMachineDrifts(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	const variation = "left to NCCL, as the gain does not exceed the run-to-run variation: "
	still := 0.0 // time / best without a drift
	for _, drift := range []string{"0", "0.05", "0.2"} {
		starts := testlib.File(t, "starts", strings.Repeat("\n", 8)) // the verification comes while times fall
		c := newCluster(t, "FAKEPERF_STATE="+starts, "FAKEPERF_DRIFT="+drift)
		_, errs := c.done("--coll", "allreduce", "--comm", "2x8", "--sizes", "4K-512M", "--launch", playedRanks)
		var judged []struct {
			Policy struct{ Mean float64 }
			Slower int     `json:"slower_than_default"`
			Worst  float64 `json:"worst_vs_default"`
		}
		out, _ := tunefit(t, cli.ExitOK, "check", "--json", filepath.Join(c.dir, "policy.csv"), "--measured", measuredGrid)
		if err := json.Unmarshal([]byte(out), &judged); err != nil {
			t.Fatal(err)
		}
		if drift == "0" {
			still = judged[0].Policy.Mean
		}
		if j := judged[0]; j.Slower > 0 || j.Policy.Mean > still+0.001 {
			t.Errorf("drift %s: %.4f of the best time, %.4f without; %d sizes are slower than the default, %.3f", drift,
				j.Policy.Mean, still, j.Slower, j.Worst)
		}
		if strings.Contains(errs, variation) {
			t.Errorf("drift %s is taken for a variation of some times\n%s", drift, errs)
		}
	}
	c := newCluster(t, "FAKEPERF_STATE="+filepath.Join(t.TempDir(), "starts"), "FAKEPERF_NOISE=0.05")
	if _, errs := c.done("--coll", "allreduce", "--comm", "2x8", "--sizes", "4K-512M", "--launch",
		playedRanks); !strings.Contains(errs, variation) {
		t.Errorf("noise: it does not say %q\n%s", variation, errs)
	}
}

// A proof needs all of its runs, right and at all sizes. Whatever else happens is no proof, and says which run it was.
func TestSweepProvesNothing(t *testing.T) {
	c := newCluster(t, "FAKEPERF_STATE="+filepath.Join(t.TempDir(), "starts"))
	sweep := []string{"--coll", "allreduce", "--comm", "1x8", "--sizes", "64K-1M", "--algos", "ring", "--protos",
		"ll,simple", "--channels", "4,32"}
	c.done(sweep...)
	healthy, env := c.perf, c.env
	short := t.TempDir() // its runs with a tuner measure fewer sizes
	script := "#!/bin/bash\n[ -z \"$NCCL_TUNER_PLUGIN\" ] || set -- -b 64K -e 256K -f 2 -N 2 -g 8\nexec " + healthy +
		"/all_reduce_perf \"$@\"\n"
	if err := os.WriteFile(filepath.Join(short, "all_reduce_perf"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		perf, fail string // of the two starts, the first of which is the 1st
		want       []string
	}{
		{"", "", nil},
		{"", "wrong:2", []string{`rep2: it computed wrong results, 1 of 20 times \(logs/.*rep2\.log\); it lacks `}},
		{"", "crash", []string{`rep1: .*Segmentation fault`, `rep2: .*Seg`}},
		{"", "crash:2", []string{`rep2: .*Segmentation fault.*; it lacks 64KiB, 128KiB, 256KiB, 512KiB, 1MiB`}},
		{short, "", []string{`rep1: it lacks 512KiB, 1MiB`, `rep2: it lacks 512KiB, 1MiB`}},
	} {
		before := len(c.runs())
		c.env = append(slices.Clone(env), "FAKEPERF_FAIL="+regexp.MustCompile(`:(\d)`).ReplaceAllStringFunc(test.fail,
			func(at string) string {
				return fmt.Sprintf(":%d", before+int(at[1]-'0'))
			}))
		if c.perf = healthy; test.perf != "" {
			c.perf = test.perf
		}
		code, out, errs := c.sweep(append(sweep, "--prove=2")...)
		if proven := code == cli.ExitOK && strings.Contains(out, " faster"); proven != (test.want == nil) ||
			len(c.runs()) != before+2 {
			t.Fatalf("%s: exit code %d, %d runs\n%s%s", test.fail, code, len(c.runs())-before, out, errs)
		}
		broken := regexp.MustCompile(`(?m)^  allreduce-1n-8r-proved-.*`)
		for name, text := range map[string]string{"it says": errs, "proof.txt": c.file("proof.txt")} {
			said := broken.FindAllString(text, -1)
			if len(said) != len(test.want) {
				t.Errorf("%s: %s\n%s", test.fail, name, text)
				continue
			}
			for i, want := range test.want {
				if !regexp.MustCompile(want).MatchString(said[i]) {
					t.Errorf("%s: %s %q, want %q", test.fail, name, said[i], want)
				}
			}
		}
	}
}

// A script reads the answer and the proof from one object, and nothing else is on standard output.
func TestSweepJSON(t *testing.T) {
	c := newCluster(t)
	out, _ := c.done("--coll", "allreduce", "--comm", "1x8", "--sizes", "64K-1M", "--algos", "ring", "--protos",
		"ll,simple",
		"--channels", "4,32", "--prove=2", "--json")
	var got struct {
		Directory string
		Fit       struct {
			Groups []json.RawMessage
			Policy string
		}
		Proof   struct{ Groups []json.RawMessage }
		Missing []string          `json:"not_measured"`
		InJob   map[string]string `json:"in_job"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got.Directory != c.dir || len(got.Fit.Groups) != 1 || got.Fit.Policy != filepath.Join(c.dir, "policy.csv") ||
		len(got.Proof.Groups) != 1 || got.Missing == nil || len(got.Missing) > 0 ||
		got.InJob["NCCL_TUNER_CONFIG_FILE"] != got.Fit.Policy || got.InJob["NCCL_TUNER_COMPARE"] != "nccl" {
		t.Errorf("%s", out)
	}
	for _, other := range []string{"--init", "--dry-run"} {
		tunefit(t, cli.ExitUsage, "sweep", "-o", c.dir, "--json", other)
	}
}

// Killed at whatever start, it goes on: nothing is measured twice, nothing is lost, and the end is the same.
func TestSweepIsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	args := []string{"--coll", "allreduce", "--comm", "1x8", "--sizes", "4K-64M", "--algos", "ring", "--protos",
		"ll,simple", "--channels", "4,32"}
	whole := newCluster(t)
	whole.done(args...)
	c := newCluster(t)
	real := c.perf
	c.perf = t.TempDir()
	// The first three starts kill tunefit: before they begin, in the middle of their output, or after their end.
	script := `#!/bin/bash
case "$*" in *--help*) exec REAL/all_reduce_perf --help;; esac
n=$(cat COUNT 2>/dev/null || echo 0); echo $((n+1)) > COUNT
case $n in
0) kill -9 $PPID; exit 1;;
1) REAL/all_reduce_perf "$@" | head -c 60000; kill -9 $PPID; sleep 1000;;
2) REAL/all_reduce_perf "$@"; kill -9 $PPID; exit 0;;
esac
exec REAL/all_reduce_perf "$@"
`
	script = strings.NewReplacer("COUNT", filepath.Join(c.perf, "count"), "REAL", real).Replace(script)
	if err := os.WriteFile(filepath.Join(c.perf, "all_reduce_perf"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	kills := 0
	for ; ; kills++ {
		code, _, errs := c.sweep(args...)
		if code == cli.ExitOK {
			break
		}
		if code != -1 || kills > 5 {
			t.Fatalf("exit code %d after %d kills\n%s", code, kills, errs)
		}
		args = nil // it knows what was asked
	}
	if kills != 3 {
		t.Errorf("it was killed %d times, want 3", kills)
	}
	measured := map[string]int{}
	for _, r := range c.runs() {
		if r.Outcome == sweep.Measured {
			measured[fmt.Sprint(r.Batch, r.Start, r.Sizes)]++
		}
	}
	for at, n := range measured {
		if n != 1 {
			t.Errorf("start %s was measured %d times", at, n)
		}
	}
	for _, name := range []string{"policy.csv"} {
		if got, want := c.file(name), whole.file(name); got != want {
			t.Errorf("%s is\n%s\nwithout kills\n%s", name, got, want)
		}
	}
	if out, err := exec.Command("pgrep", "-f", c.perf).Output(); err == nil {
		t.Errorf("processes are left: %s", out)
	}
}

// A run that fails is tried once more, and named with its reason; the sweep goes on without it.
func TestSweepWithFailures(t *testing.T) {
	args := []string{"--coll", "allreduce", "--comm", "2x8", "--sizes", "4K-16M", "--algos", "ring,tree", "--protos",
		"ll,simple", "--channels", "4,32", "--launch", playedRanks}
	for _, test := range []struct {
		fail string
		more []string
		want []string // of the outcomes, as regular expressions
	}{
		{"crash:ring/ll/4", nil, []string{`start01 failed: .*Segmentation fault`, `start02-ring-ll-4ch failed: `}},
		{"cuda-error:tree/simple/4", nil, []string{`start01 failed: .*CUDA failure`, `start02-tree-simple-4ch failed: `}},
		{"wrong:tree/simple/4", nil, []string{`start01 refused: it computed wrong results`}},
		{"hang:ring/ll/4", []string{"--limit", "8s"},
			[]string{`start01 failed: it printed nothing for 8s and was ended`, `start02-ring-ll-4ch failed: `}},
		{"node-lost:ring/ll/4", nil, []string{`start01 failed: `, `start02-ring-ll-4ch failed: `}},
		{"truncated:ring/ll/4", nil, []string{`start01 failed: its output was cut off`, `start02-ring-ll-4ch failed: `}},
	} {
		t.Run(test.fail, func(t *testing.T) {
			if testing.Short() && !strings.HasPrefix(test.fail, "crash") {
				t.Skip("one failure will do")
			}
			c := newCluster(t, "FAKEPERF_FAIL="+test.fail)
			code, _, errs := c.sweep(append(test.more, args...)...)
			got := c.outcomes()
			for i, want := range test.want {
				if i >= len(got) || !regexp.MustCompile(want).MatchString(got[i]) {
					t.Fatalf("outcomes\n%s\nwant %d: %s\n%s", strings.Join(got, "\n"), i, want, errs)
				}
			}
			if len(got) != len(test.want) || code != cli.ExitOK {
				t.Errorf("exit code %d, outcomes\n%s\n%s", code, strings.Join(got, "\n"), errs)
			}
			_, what, _ := strings.Cut(test.fail, ":")
			if learnt := regexp.MustCompile(`forced,[0-9]`).FindString(
				strings.Join(slices.DeleteFunc(strings.Split(c.file("sweep.csv"), "\n"), func(row string) bool {
					return what == "" || !strings.Contains(row, strings.ReplaceAll(what, "/", ",")+",")
				}), "\n")); learnt != "" {
				t.Errorf("what failed is learnt from\n%s", c.file("sweep.csv"))
			}
		})
	}
}

// What ran at the first size without a time is to blame for a start that died. It alone is tried once more and given up,
// and the rest of the start is measured.
func TestSweepFindsWhatFailed(t *testing.T) {
	c := newCluster(t, "FAKEPERF_FAIL=crash:ring/ll/24")
	code, _, errs := c.sweep("--coll", "allreduce", "--comm", "1x8", "--sizes", "4K-16M", "--launch", playedRanks)
	got := c.outcomes()
	if code != cli.ExitOK || len(got) != 2 || !strings.Contains(got[0], "-start02 failed") ||
		!strings.Contains(got[1], "-start03-ring-ll-24ch failed") {
		t.Fatalf("exit code %d, outcomes\n%s\n%s", code, strings.Join(got, "\n"), errs)
	}
	if csv := c.file("sweep.csv"); strings.Contains(csv, ",ring,ll,24,1,8,0,forced,") ||
		!strings.Contains(csv, ",ring,ll,16,1,8,0,forced,") {
		t.Errorf("learnt from are\n%s", csv)
	}
}

// What comes from outside ends a sweep, is named, and counts for nothing: the sweep goes on as if it had not been.
func TestSweepIsEndedFromOutside(t *testing.T) {
	args := []string{"--coll", "allreduce", "--comm", "1x8", "--sizes", "64K-1M", "--algos", "ring", "--protos",
		"ll,simple", "--channels", "4,32"}
	for name, test := range map[string]struct{ script, said string }{
		"signal":  {"REAL \"$@\" | head -c 20000; kill -TERM $$", "ended from outside, by signal 15 (terminated)"},
		"scancel": {"echo 'slurmstepd: error: *** JOB 7 ON node1 CANCELLED AT 2026-11-28T17:00:00 ***'; exit 1", "*** JOB 7 ON node1 CANCELLED AT"},
		"disk":    {"echo 'write error: No space left on device' >&2; exit 1", "No space left on device"},
	} {
		c := newCluster(t)
		real, dir := c.perf, t.TempDir()
		script := "#!/bin/bash\ncase \"$*\" in *--help*) exec REAL --help;; esac\n" + test.script + "\n"
		script = strings.ReplaceAll(script, "REAL", real+"/all_reduce_perf")
		if err := os.WriteFile(filepath.Join(dir, "all_reduce_perf"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		c.perf = dir
		code, _, errs := c.sweep(args...)
		if runs := c.runs(); code != cli.ExitFailed || !strings.Contains(errs, test.said) ||
			!strings.Contains(errs, "to continue: tunefit sweep -o ") || len(runs) != 1 || runs[0].Outcome != sweep.Stopped {
			t.Errorf("%s: exit code %d\n%s", name, code, errs)
		}
		c.perf = real
		if _, errs := c.done(); strings.Contains(errs, "FAILED") || strings.Contains(errs, "left to NCCL") {
			t.Errorf("%s: it goes on with\n%s", name, errs)
		}
	}
}

// A finished sweep measures what it is given in addition, and keeps what is there.
func TestSweepIsExtended(t *testing.T) {
	c := newCluster(t)
	c.done("--coll", "allreduce", "--comm", "1x8", "--sizes", "64K-256K", "--algos", "ring", "--protos", "ll,simple",
		"--channels", "4,32")
	for _, test := range []struct{ option, value, row string }{
		{"--sizes", "64K-1M", "all_reduce,1048576,float,sum,ring,ll,4,"},
		{"--channels", "1,4,16,32,48", "float,sum,ring,ll,16,"},
		{"--algos", "ring,tree", "float,sum,tree,ll,32,"},
		{"--comm", "1x8,2x8", ",2,16,0,default,"},
	} {
		before := len(c.runs())
		args := []string{test.option, test.value}
		if test.option == "--comm" {
			args = append(args, "--launch", playedRanks)
		}
		c.done(args...)
		if csv := c.file("sweep.csv"); len(c.runs()) == before || !strings.Contains(csv, test.row) {
			t.Errorf("%s %s: %d runs, then %d, no %q", test.option, test.value, before, len(c.runs()), test.row)
		}
	}
}

// nccl-tests that cannot repeat their sizes measure one configuration a start, and all that is measured counts.
func TestSweepOfOldPrograms(t *testing.T) {
	c := newCluster(t, "FAKEPERF_FAIL=no-cycles")
	script, _ := c.done("--coll", "allreduce", "--comm", "1x8", "--sizes", "64K-4M", "--dry-run")
	if strings.Contains(script, " -N ") || !strings.Contains(script, "since nccl-tests cannot repeat its sizes (-N") {
		t.Errorf("by hand:\n%s", script)
	}
	out, errs := c.done("--coll", "allreduce", "--comm", "1x8", "--sizes", "64K-4M", "--algos", "ring", "--protos",
		"ll,simple", "--channels", "4,32")
	if !strings.Contains(errs, "; each measures one configuration at a size, since nccl-tests cannot repeat its sizes (-N") ||
		!regexp.MustCompile(`measurements: \d+ used, \d+ not needed, 0 refused`).MatchString(out) {
		t.Errorf("it says\n%s%s", out, errs)
	}
	if text := c.file("policy.csv"); !strings.Contains(text, "\nallreduce,") {
		t.Errorf("the policy is\n%s", text)
	}
}

// A wrapper that does not hand on what it is asked cannot run what is planned.
func TestSweepOfAWrapper(t *testing.T) {
	c := newCluster(t)
	script := "#!/bin/sh\nexec " + c.perf + "/all_reduce_perf -b 1K -e 2K -f 2 -g 8\n"
	c.perf = t.TempDir()
	if err := os.WriteFile(filepath.Join(c.perf, "all_reduce_perf"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	code, _, errs := c.sweep("--coll", "allreduce", "--comm", "1x8")
	if code != cli.ExitFailed || len(c.runs()) > 0 || !regexp.MustCompile(`nothing was run: on \S+ a program does not print `+
		`nccl-tests' options: \S+/all_reduce_perf --help says: # .*\(a wrapper has to hand its arguments to `).MatchString(errs) {
		t.Errorf("exit code %d, %d runs\n%s", code, len(c.runs()), errs)
	}
}

// Where nothing runs it ends soon, and says why.
func TestSweepWithoutADefault(t *testing.T) {
	c := newCluster(t, "FAKEPERF_FAIL=crash")
	code, _, errs := c.sweep("--coll", "allreduce", "--comm", "1x8")
	if code != cli.ExitFailed || len(c.runs()) > 12 ||
		!strings.Contains(errs, "allreduce 1x8 is left to NCCL, since no gain can be told without its default: \"[") {
		t.Errorf("exit code %d, %d runs\n%s", code, len(c.runs()), errs)
	}
}

func TestSweepIsInterrupted(t *testing.T) {
	c := newCluster(t)
	real := c.perf
	c.perf = t.TempDir()
	script := "#!/bin/bash\ncase \"$*\" in *--help*) exec REAL/all_reduce_perf --help;; esac\n" +
		"REAL/all_reduce_perf \"$@\" | head -c 9000; kill -INT $PPID; sleep 1000\n"
	if err := os.WriteFile(filepath.Join(c.perf, "all_reduce_perf"), []byte(strings.ReplaceAll(script, "REAL", real)),
		0o755); err != nil {
		t.Fatal(err)
	}
	code, _, errs := c.sweep("--coll", "allreduce", "--comm", "1x8", "--sizes", "4K-64M")
	runs := c.runs()
	if code != cli.ExitInterrupted || len(runs) != 1 || runs[0].Outcome != sweep.Stopped ||
		!strings.Contains(errs, "signal received (to continue: tunefit sweep -o ") {
		t.Errorf("exit code %d, %d runs\n%s", code, len(runs), errs)
	}
	if out, err := exec.Command("pgrep", "-f", c.perf).Output(); err == nil {
		t.Errorf("processes are left: %s", out)
	}
}

// What the budget does not reach is not begun, and what was measured makes a policy.
func TestSweepBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a budget to be spent")
	}
	c := newCluster(t, "FAKEPERF_SECONDS=5")
	code, _, errs := c.sweep("--coll", "allreduce", "--comm", "1x8,2x8", "--launch", playedRanks, "--sizes", "64K-1M",
		"--budget", "25s")
	if code != cli.ExitOK && code != cli.ExitFailed ||
		!strings.Contains(errs, "the budget of 25s is spent; not measured to the end: ") ||
		!strings.Contains(errs, "allreduce 2x8") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
	runs := c.runs()
	if len(runs) == 0 {
		t.Fatalf("nothing ran\n%s", errs)
	}
	if took := runs[len(runs)-1].Begun.Sub(runs[0].Begun).Seconds(); took > 25 {
		t.Errorf("a run begins after %.1f s", took)
	}
}

// On more nodes only what is fastest on few is measured, never by what is fastest on one.
func TestSweepOfManyNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: -short")
	}
	c := newCluster(t)
	c.env = []string{"FAKEPERF_NOISE=0"} // simulated: the real grid ends at two nodes
	c.done("--coll", "allreduce", "--comm", "1x8,2x8,4x8,16x8", "--sizes", "64K-64M", "--algos", "ring,tree",
		"--channels", "4,16", "--launch", playedRanks)
	starts := map[string]int{}
	for _, r := range c.runs() {
		starts[regexp.MustCompile(`allreduce-(\d+n)`).FindStringSubmatch(r.Log)[1]]++
	}
	if starts["4n"] != 2 || starts["16n"] != 2 || starts["1n"] < 2 || starts["2n"] < 2 {
		t.Errorf("starts by nodes: %v", starts)
	}
	if text := c.file("policy.csv"); !strings.Contains(text, ",4,32,") {
		t.Errorf("nothing for 4 nodes:\n%s", text)
	}
}

// few is a sweep of a few runs.
var few = []string{"--coll", "allreduce", "--comm", "2x8", "--sizes", "64K-1M", "--algos", "ring", "--protos",
	"simple", "--channels", "4,32"}

func TestSweepThroughOpenMPI(t *testing.T) {
	c := newCluster(t)
	args := testlib.OpenMPI(t)
	c.done(append(few, "--launch", "mpirun", "--hosts", "node1,node2", "--launch-args", strings.Join(args, " "))...)
	if text := c.file("sweep.csv"); !strings.Contains(text, ",2,16,") ||
		!regexp.MustCompile("node1 node(1-)?2").MatchString(text) {
		t.Errorf("measured was\n%s", text)
	}
}

// Outside of an allocation the sweep says what to type, and either line does it.
func TestSweepThroughSlurm(t *testing.T) {
	testlib.Slurm(t, 3)
	bin := t.TempDir() // of tunefit
	self, err := os.Executable()
	if err := errors.Join(err, os.Symlink(self, filepath.Join(bin, "tunefit"))); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(bin, "log")
	for line, as := range map[string]string{
		"salloc -N 2 --gpus-per-node=8 --exclusive tunefit sweep -o DIR":          "salloc",
		"sbatch -N 2 --gpus-per-node=8 --exclusive --wrap='tunefit sweep -o DIR'": "sbatch --wait --output=" + log,
	} {
		c := newCluster(t)
		line = strings.Replace(line, "DIR", c.dir, 1)
		code, _, errs := c.sweep(append(few, "--launch", "slurm")...)
		if code != cli.ExitFailed || !strings.Contains(errs, "ranks of this sweep start in an allocation, and there is none (") ||
			!strings.Contains(errs, line) {
			t.Fatalf("exit code %d, no %q\n%s", code, line, errs)
		}
		cmd := exec.Command("sh", "-c", strings.Replace(line, line[:len("salloc")], as, 1))
		cmd.Env = append(append(os.Environ(), testkit.AsTunefit+"=1", "PATH="+bin+":"+playedPath(t)), c.env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			said, _ := os.ReadFile(log)
			t.Fatalf("%s: %v: %s%s", line, err, out, said)
		}
		if text := c.file("sweep.csv"); !strings.Contains(text, ",2,16,") ||
			!regexp.MustCompile("node[12] node(1-)?[23]").MatchString(text) {
			t.Errorf("measured was\n%s", text)
		}
	}
}

func TestSweepDryRun(t *testing.T) {
	c := newCluster(t)
	out, _ := c.done("--coll", "allreduce", "--comm", "1x8,2x8,1000x8", "--launch",
		"ssh head mpirun -np {ranks} {command}", "--dry-run")
	for _, want := range []string{"# allreduce 1000x8  2 ", "the fastest of each size on fewer nodes, also with",
		"GPU hours", "\n# /bin/sh -c 'ssh head mpirun -np 8000 ", "all_reduce_perf -b 1024 -e 1073741824 -f 2 -N 26 -g 1"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	out, _ = c.done("--coll", "allreduce", "--comm", "1x4", "--topo",
		filepath.Join(testlib.Root, "configs/topo/pcie-4gpu.xml"), "--dry-run")
	want := "# not available on this machine, and not planned: ring/ll128, tree/ll128, nvls/simple, "
	if !strings.Contains(out, want) {
		t.Errorf("it does not say %q:\n%s", want, out)
	}
	if _, err := os.Stat(c.dir); !os.IsNotExist(err) {
		t.Errorf("it left something behind: %v", err)
	}
}

func TestSweepPlanFile(t *testing.T) {
	c := newCluster(t)
	for text, want := range map[string]string{
		"chanels: [1]\n": "plan.yaml:1:1: unknown setting \"chanels\" (did you mean \"channels\"; " +
			"allowed: coll, comm,",
		"comm: 1x8\nchannels: [1, x]\n":  "plan.yaml:2:1: --channels=1,x: wrong value (allowed: whole numbers,",
		"comm: 1x8\ncomm: 2x8\n":         "plan.yaml:",
		"- comm\n":                       "plan.yaml:1: not settings",
		"comm: {a: b}\n":                 "plan.yaml:1:1: comm: not a value (needed: one, or a list, as [a, b])",
		"budget:\n":                      "plan.yaml:1:1: budget: not a value (needed: one)",
		"comm: [8]\ncoll: allreduce\n":   "plan.yaml:1:8: --comm \"8\": not NODESxRANKS_PER_NODE",
		"coll:\n- reduce\n- allredcue\n": "plan.yaml:3:3: unknown collective \"allredcue\" (did you mean \"allreduce\"; ",
		"sizes: 1M-4K\n":                 "plan.yaml:1:8: 1M-4K: a range runs from its smaller size to its larger",
		"comm: 1x8\n":                    "--coll and --comm say what to measure",
		"coll: [\n":                      "plan.yaml:",
		"comm: 1x8\ncoll: allreduce\nlaunch: torchrun\n": "unknown launcher \"torchrun\"",
		"comm: 2x8\ncoll: allreduce\nlaunch: local\n": "--launch local starts ranks on this machine only " +
			"(allreduce 2x8 needs",
		"comm: 1x8\ncoll: allreduce\nlimit: 1\n": "plan.yaml:3:1: --limit=1: not a duration (allowed: 0 and more,",
	} {
		code, _, errs := c.sweep(testlib.File(t, "plan.yaml", text))
		if code == cli.ExitOK || !strings.Contains(errs, want) {
			t.Errorf("%q: exit code %d, %s, want %q", text, code, errs, want)
		}
	}
	if code, _, errs := c.sweep(); code != cli.ExitUsage || !strings.Contains(errs, c.dir+" holds no sweep to continue") {
		t.Errorf("in a wrong folder: exit code %d, %s", code, errs)
	}
	// What --init prints is a plan file, and the options have the last word.
	out, _ := tunefit(t, cli.ExitOK, "sweep", "--init", "--coll", "allreduce", "--comm", "1x8", "--perf-args",
		"-n 50 'x'")
	for _, want := range []string{"#   salloc -N 4 --gpus-per-node=8 --exclusive tunefit sweep ",
		"--mpi=pmix --cpu-bind=none"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	file := testlib.File(t, "plan.yaml", out)
	again, _ := c.done(file, "--sizes", "1M", "--dry-run")
	if !strings.Contains(again, " -e 1048576 -f 2 -N 18 -g 8 -n 50 ''\\''x'\\'''") {
		t.Errorf("%s\n%s", out, again)
	}
	if code, _, _ := c.sweep(filepath.Join(t.TempDir(), "missing.yaml")); code == cli.ExitOK {
		t.Error("a plan file that is not there")
	}
}
