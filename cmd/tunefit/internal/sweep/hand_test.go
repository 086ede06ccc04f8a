package sweep_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

const simulatedSweep = "../../../../configs/sweeps/simulated-hgx-h100-2n.csv"

// Scripts that are run one after the other start what the sweep itself starts, from the default to the verification and
// to fewer runs on more nodes, and their logs make the same policy.
func TestSweepByHand(t *testing.T) {
	if testing.Short() {
		t.Skip("two whole sweeps")
	}
	args := []string{"--coll", "allreduce,allgather", "--comm", "1x8,2x8,4x8", "--sizes", "64K-16M", "--algos",
		"ring,tree,collnet_chain", "--protos", "ll,simple", "--channels", "4,32", "--launch", playedRanks}
	c := newCluster(t)
	c.env = []string{"FAKEPERF_NOISE=0"} // simulated: the real grid ends at two nodes
	c.done(args...)
	var want []string
	for _, r := range c.runs() {
		want = append(want, filepath.Base(r.Log)[len("00000-"):])
	}
	args = append(args, "--dry-run")
	after, _ := c.done(append(args, "--from", filepath.Join(c.dir, "sweep.csv"))...)
	if !strings.Contains(after, "\n# nothing is left to run: ") {
		t.Errorf("after the sweep's own sweep.csv:\n%s", after)
	}
	wider, _ := c.done(append(args, "--sizes", "64K-64M", "--from", filepath.Join(c.dir, "sweep.csv"))...)
	if !strings.Contains(wider, " and not planned: collnet_chain/simple\n") || strings.Contains(wider, ",collnet_chain,") {
		t.Errorf("of more sizes after it:\n%s", wider)
	}
	again, _ := c.done(args...)
	if !strings.Contains(again, " holds a sweep, ") {
		t.Errorf("in a sweep's folder:\n%s", again)
	}
	byHand := *c
	byHand.dir = filepath.Join(t.TempDir(), "it's by hand")
	logs := filepath.Join(byHand.dir, "logs")
	for round := 0; ; round++ {
		script, _ := byHand.done(args...)
		if strings.Contains(script, "\n# nothing is left to run: ") {
			break
		}
		cmd := exec.Command("sh", "-euc", script)
		cmd.Env = append(os.Environ(), append(c.env, "NCCL_ALGO=ring")...) // which a sweep does not obey either
		if out, err := cmd.CombinedOutput(); err != nil || round > mostRuns {
			t.Fatalf("%v, %s, after\n%s", err, out, script)
		}
		if round == 0 {
			args = append(args, "--from", logs)
		}
	}
	files, err := filepath.Glob(filepath.Join(logs, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, file := range files {
		got = append(got, filepath.Base(file))
	}
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("started were\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	policy := filepath.Join(t.TempDir(), "policy.csv")
	tunefit(t, cli.ExitOK, append([]string{"fit", "--csv", policy}, files...)...)
	if got, err := os.ReadFile(policy); err != nil || string(got) != c.file("policy.csv") {
		t.Errorf("%v: the policy is\n%s\nwant\n%s", err, got, c.file("policy.csv"))
	}
}

// nextRuns is the script that goes on from logs.
func nextRuns(t *testing.T, code int, args ...string) (script, errs string) {
	t.Helper()
	return tunefit(t, code, append([]string{"sweep", "--dry-run", "-o", filepath.Join(t.TempDir(), "sweep"), "--plugin",
		"/only/there/" + cli.LibraryName, "--launch", playedRanks}, args...)...)
}

// What is measured is what the logs have, as far as the flags do not exclude it, or what both flags name.
func TestSubjectsOfLogs(t *testing.T) {
	for want, args := range map[string][]string{
		"allgather 2x8, reducescatter 2x8, allreduce 2x8": nil,
		"allreduce 2x8": {"--coll", "broadcast,allreduce"},
		"allgather 2x8, reducescatter 2x8, allreduce 2x8 ": {"--comm", "4x8,2x8"},
		"broadcast 1x8": {"--coll", "broadcast", "--comm", "1x8"},
	} {
		script, _ := nextRuns(t, cli.ExitOK, append(args, "--from", simulatedSweep)...)
		var got []string
		for _, m := range regexp.MustCompile(`(?m)^# (\w+ \d+x\d+): `).FindAllStringSubmatch(script, -1) {
			got = append(got, m[1])
		}
		if strings.Join(got, ", ") != strings.TrimSpace(want) {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
}

// What the machine does not have is not planned: an H100 node has no NVLSTree for itself, and no more channels than
// NCCL finds.
func TestNextRunsWithTopology(t *testing.T) {
	args := []string{"--channels", "1,16,64", "--from", testlib.File(t, "sweep.csv",
		"collective,size_bytes,algorithm,protocol,channels,nodes,ranks,selection,time_us\n"+
			"allreduce,1048576,,,,1,8,default,50\nallreduce,2097152,,,,1,8,default,60\n")}
	if script, _ := nextRuns(t, cli.ExitOK, args...); !strings.Contains(script, ",ring,ll,64,") ||
		!strings.Contains(script, ",nvls_tree,simple,64,") {
		t.Errorf("without a topology:\n%s", script)
	}
	script, _ := nextRuns(t, cli.ExitOK, append(args, "--topo", "../../../../configs/topo/dgx-h100.xml", "--nccl",
		"2.30.7")...)
	if !strings.Contains(script, ",nvls,simple,16,") || !strings.Contains(script, ",ring,ll,24,") ||
		strings.Contains(script, ",nvls_tree,") || strings.Contains(script, ",64,") {
		t.Errorf("with the topology:\n%s", script)
	}
}

// What failed is known from its log and from the sweep that import makes of it.
func TestNextRunsLeaveOutWhatFailed(t *testing.T) {
	byDefault := testlib.File(t, "default.csv", "collective,size_bytes,algorithm,protocol,channels,nodes,ranks,"+
		"selection,time_us\nallreduce,1048576,,,,1,8,default,50\n")
	log := testlib.File(t, "failed.log", "# tunefit sweep x: allreduce 1x8, measure nvls/simple/32\n"+
		"all_reduce.cu:1: Test NCCL failure\n")
	imported := filepath.Join(t.TempDir(), "sweep.csv")
	tunefit(t, cli.ExitOK, "import", byDefault, log, "-o", imported)
	for failed, args := range map[bool][][]string{
		false: {{"--from", byDefault}},
		true:  {{"--from", byDefault, "--from", log}, {"--from", imported}},
	} {
		for _, from := range args {
			if script, _ := nextRuns(t, cli.ExitOK, from...); strings.Contains(script, ",nvls,simple,32,") == failed {
				t.Errorf("%s:\n%s", from, script)
			}
		}
	}
}

// Logs without a single usable time are refused, unless they tell of what failed or did not run as asked for.
func TestNextRunsAfterUselessLogs(t *testing.T) {
	const head = "collective,size_bytes,algorithm,protocol,channels,nodes,ranks,selection,time_us,nccl_version\n"
	for _, test := range []struct{ row, refused string }{
		{"allreduce,1048576,ring,ll,4,1,1,forced,50,", "  1: 1 rank communicates with nobody\n"},
		{"allgather,1048576,ring,ll,4,1,8,forced,50,2.29.7", "  1: channel counts for allgather, which a tuner cannot"},
		{"allreduce,0,ring,ll,4,1,8,forced,,", ""},       // it failed
		{"allreduce,1048576,ring,ll,4,1,8,forced,,", ""}, // it was not measured at this size
		{"allreduce,1048576,ring,ll,4,1,8,forced,50,", ""},
	} {
		code := cli.ExitOK
		if test.refused != "" {
			code = cli.ExitFailed
		}
		script, errs := nextRuns(t, code, "--coll", "allreduce", "--comm", "1x8", "--from",
			testlib.File(t, "sweep.csv", head+test.row+"\n"))
		if code == cli.ExitOK && !strings.Contains(script, "allreduce-1n-8r-start0") || code != cli.ExitOK &&
			!(strings.Contains(errs, test.refused) && strings.Contains(errs, "--from: not one usable measurement\n")) {
			t.Errorf("%s: %s\n%s", test.row, errs, script)
		}
	}
}

func TestNextRunsBadInput(t *testing.T) {
	for name, test := range map[string]struct {
		args string
		want string
		code int
	}{
		"nothing":          {"", "--coll and --comm say what to measure", cli.ExitUsage},
		"other collective": {"--from " + simulatedSweep + " --coll reduce", "; --from has allgather 2x8;", cli.ExitUsage},
		"other machine": {"--coll allreduce --comm 1x4 --topo ../../../../configs/topo/dgx-h100.xml",
			"communicators of 8 ranks a node", cli.ExitUsage},
		"not on the machine": {"--coll allreduce --comm 1x8 --algos nvls_tree --topo ../../../../configs/topo/dgx-h100.xml",
			"have none of these", cli.ExitUsage},
		"repetitions":         {"--coll allreduce --comm 1x8 --repetitions 0", "allowed: 1 to 100", cli.ExitUsage},
		"no such topology":    {"--coll allreduce --comm 1x8 --topo missing.xml", "no such file", cli.ExitFailed},
		"unknown algorithm":   {"--coll allreduce --comm 1x8 --algos rign", `did you mean "ring"`, cli.ExitUsage},
		"no such pair":        {"--coll broadcast --comm 1x8 --algos tree", "NCCL has none", cli.ExitUsage},
		"skip channels":       {"--coll allreduce --comm 1x8 --skip ring/ll/x", "allowed: 1 to 64", cli.ExitUsage},
		"no such file":        {"--from missing.csv", "no such file", cli.ExitFailed},
		"not a sweep":         {"--from sweep.go", "no measurements in it", cli.ExitFailed},
		"sizes not measured":  {"--from " + simulatedSweep + " --coll allreduce --sizes 2G-4G", "", cli.ExitOK},
		"not a communicator":  {"--coll allreduce --comm 8", "NODESxRANKS_PER_NODE", cli.ExitUsage},
		"sizes from the flag": {"--coll allreduce --comm 1x8 --sizes 1M,3M", "", cli.ExitOK},
	} {
		t.Run(name, func(t *testing.T) {
			if _, errs := nextRuns(t, test.code, strings.Fields(test.args)...); !strings.Contains(errs, test.want) {
				t.Errorf("got %q, want %q", errs, test.want)
			}
		})
	}
	if _, errs := tunefit(t, cli.ExitUsage, "sweep", "-o", t.TempDir(), "--from", simulatedSweep); !strings.Contains(errs,
		"--from needs --dry-run: a sweep goes on from its own logs") {
		t.Error(errs)
	}
}

// A sweep measures what the job calls, the heaviest first, at every doubling around its sizes, and leaves out what
// hardly counts.
func TestProfileSwept(t *testing.T) {
	const head = "# tunefit job profile 1\ncollective,nodes,ranks,bytes,calls,time_us\n"
	job := testlib.File(t, "job.csv",
		head+"allreduce,1,8,100K,10,100\nallgather,1,8,9M,10,300\nallgather,1,8,5M,10,200\nreduce,1,8,8,1,10\n"+
			"allreduce,1,8,,50,\n")
	// nccl-tests gives each rank 16 bytes or a multiple.
	small := testlib.File(t, "small.csv", head+"allgather,1,8,1000,1,100\nreducescatter,1,8,20,1,100\n")
	two := testlib.File(t, "two.csv", head+"allreduce,1,8,5K,1,300\nallreduce,1,8,40K,1,100\nallreduce,2,16,1M,1,50\n")
	for _, test := range []struct {
		args []string
		want string // the programs that start, with their sizes
	}{
		{[]string{job}, "all_gather_perf -b 65536 -e 131072 -f 2; all_gather_perf -b 4194304 -e 16777216 -f 2; " +
			"all_reduce_perf -b 65536 -e 131072 -f 2; all_reduce_perf -b 4194304 -e 16777216 -f 2"},
		{[]string{small}, "all_gather_perf -b 128 -e 512 -f 4; all_gather_perf -b 512 -e 1024 -f 2; " +
			"reduce_scatter_perf -b 128 -e 512 -f 4; reduce_scatter_perf -b 512 -e 1024 -f 2"},
		{[]string{two, "--comm", "1x8"}, "all_reduce_perf -b 4096 -e 65536 -f 2"},
		{[]string{job, "--coll", "allreduce", "--sizes", "1M"}, "all_reduce_perf -b 524288 -e 1048576 -f 2"},
	} {
		script, notes := nextRuns(t, cli.ExitOK, append([]string{"--profile"}, test.args...)...)
		got := regexp.MustCompile(`\w+_perf -b \d+ -e \d+(?: -f \d)?`).FindAllString(script, -1)
		if strings.Join(got, "; ") != test.want {
			t.Errorf("%q: %q, want %s", test.args, got, test.want)
		}
		if said := strings.Contains(notes, "0.2 % of the job's communication are left out"); said != (test.args[0] == job &&
			len(test.args) == 1) {
			t.Errorf("%q: %s", test.args, notes)
		}
	}
	if _, errs := nextRuns(t, cli.ExitUsage, "--profile", job, "--comm", "2x8"); !strings.Contains(errs,
		"no call of a known size is in it of the collectives and communicators that --coll and --comm name") {
		t.Errorf("nothing: %s", errs)
	}
	if _, errs := nextRuns(t, cli.ExitFailed, "--profile", simulatedSweep); !strings.Contains(errs,
		".csv is a sweep: measurements (needed: a job profile)") {
		t.Errorf("no profile: %s", errs)
	}
}

// PAT is measured where the release is known to offer it: a tuner is the only way to it on nodes of several ranks.
func TestPATIsPlannedWhereItIsOffered(t *testing.T) {
	for _, test := range []struct {
		coll, nodes, ranks, release string
		args                        []string
		planned                     bool
	}{
		{"allgather", "2", "16", "2.31.2", nil, true},
		{"reducescatter", "2", "16", "2.31.2", nil, true},
		{"allreduce", "2", "16", "2.31.2", nil, false},
		{"allgather", "1", "8", "2.31.2", nil, false},
		{"allgather", "2", "16", "2.31.0", nil, false},
		{"allgather", "2", "16", "2.30.7", nil, false},
		{"allgather", "2", "2", "2.23.4", nil, true},
		{"allgather", "2", "2", "2.22.3", nil, false},
		{"allgather", "2", "16", "", nil, false},
		{"allgather", "2", "16", "RCCL 2.27.7", nil, false},
		{"allgather", "2", "16", "", []string{"--algos", "ring,pat"}, true},
		{"allgather", "2", "16", "2.31.2", []string{"--algos", "ring"}, false},
		{"allgather", "2", "16", "", []string{"--topo", filepath.Join(testlib.Root, "configs/topo/dgx-h100.xml"),
			"--nccl", "2.31.2"}, true},
		{"allgather", "2", "16", "", []string{"--topo", filepath.Join(testlib.Root, "configs/topo/dgx-h100.xml"),
			"--nccl", "2.30.7"}, false},
	} {
		sweep := testlib.File(t, "sweep.csv", fmt.Sprintf(
			"collective,size_bytes,algorithm,protocol,channels,nodes,ranks,selection,time_us,nccl_version\n"+
				"%s,1048576,ring,simple,4,%s,%s,default,100,%s\n", test.coll, test.nodes, test.ranks, test.release))
		out, _ := nextRuns(t, cli.ExitOK, append(test.args, "--from", sweep)...)
		if strings.Contains(out, ",pat,simple,") != test.planned {
			t.Errorf("%+v:\n%s", test, out)
		}
	}
}
