package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testlib"
)

// jobFiles are what a made-up job left, see bench/profile/testdata.
func jobFiles(t *testing.T) (inspector []string, log string) {
	t.Helper()
	dir := filepath.Join(testlib.Root, "bench/profile/testdata")
	inspector, err := filepath.Glob(filepath.Join(dir, "inspector-*.json"))
	if err != nil || len(inspector) != 4 {
		t.Fatalf("%v: %q", err, inspector)
	}
	return inspector, filepath.Join(dir, "decisions.log")
}

// What a job left becomes a profile, and that is printed as what it was made of is.
func TestProfile(t *testing.T) {
	inspector, log := jobFiles(t)
	job := filepath.Join(t.TempDir(), "job.csv")
	files := append(inspector, log, inspector[0]) // the last is the same again
	stdout, stderr := tunefit(t, cli.ExitOK, append([]string{"import", "--steps", "2", "-o", job}, files...)...)
	if stdout != "" || !strings.Contains(stderr, "a job profile of 5 rows") {
		t.Errorf("import: %s%s", stdout, stderr)
	}
	printed, _ := tunefit(t, cli.ExitOK, "profile", job)
	const headline = "61 % of the communication time is allgather of 8MiB - 12MiB on 2x2 (3.007 ms of 4.969 ms a step)\n"
	if !strings.HasPrefix(printed, headline) {
		t.Errorf("got\n%s\nwant first\n%s", printed, headline)
	}
	if direct, _ := tunefit(t, cli.ExitOK, append([]string{"profile", "--steps", "2"}, files...)...); direct != printed {
		t.Errorf("of the files themselves\n%s\nof the profile\n%s", direct, printed)
	}
	if again, _ := tunefit(t, cli.ExitOK, "import", filepath.Dir(log), "--steps", "2"); func() string { text, _ := os.ReadFile(job); return string(text) }() != again {
		t.Errorf("of the directory\n%s", again)
	}
	if shapes, _ := tunefit(t, cli.ExitOK, "import", "--profile", log); !strings.Contains(shapes, "allgather,2,4,8388608,,,,ring,simple,8,policy.csv:2\n") {
		t.Errorf("of a log\n%s", shapes)
	}
	var j profileJSON
	if text, _ := tunefit(t, cli.ExitOK, "profile", job, "--json"); json.Unmarshal([]byte(text), &j) != nil || j.ShareOf != "time" || !j.PerStep || len(j.Calls) != 5 || j.Headline+"\n" != headline || j.Calls[1].StepBytes != 3*12<<20 {
		t.Errorf("%+v", j)
	}
}

func TestProfileErrors(t *testing.T) {
	inspector, log := jobFiles(t)
	job := testlib.File(t, "job.csv", "# tunefit job profile 1\ncollective,nodes,ranks,bytes,calls\nallreduce,1,8,1M,3\n")
	bad := testlib.File(t, "bad.csv", "# tunefit job profile 1\ncollective,nodes,ranks,bytes\nallredux,1,8,1M\n")
	broken := testlib.File(t, "broken.json", `{"metadata":{"inspector_output_format_version":"v5.0"},"header":{}}`)
	sweep := testlib.File(t, "sweep.csv", ringSweep)
	out := filepath.Join(t.TempDir(), "out.csv")
	for _, c := range []struct {
		code int
		args []string
		want string
	}{
		{cli.ExitUsage, []string{"profile"}, "0 arguments given (needed: a job profile"},
		{cli.ExitUsage, []string{"profile", job, inspector[0]}, "job.csv is a job profile and stands alone"},
		{cli.ExitUsage, []string{"profile", job, "--steps", "2"}, "calls_per_step"},
		{cli.ExitUsage, []string{"profile", log, "--steps", "-2"}, "--steps -2 (allowed: 1 or more"},
		{cli.ExitFailed, []string{"profile", bad}, `bad.csv:3:1: collective: unknown collective "allredux"`},
		{cli.ExitFailed, []string{"profile", sweep}, "sweep.csv is a sweep: measurements (needed: the output of NCCL's inspector or a log of measurements)"},
		{cli.ExitFailed, []string{"import", broken, "-o", out}, `broken.json:1:1: inspector_output_format_version is "v5.0" (known: v4.0, v4.1, v4.2, v4.3)`},
		{cli.ExitFailed, []string{"import", inspector[0], sweep, "-o", out}, "sweep.csv is a sweep"},
		{cli.ExitFailed, []string{"import", inspector[0], "-o", inspector[0], "--force"}, "is read, and would be overwritten"},
		{cli.ExitUsage, []string{"import", inspector[0], "--comm", "1x8"}, "are for measurements (allowed with a job profile"},
		{cli.ExitUsage, []string{"import", sweep, "--steps", "3"}, "none of the files is the inspector's output"},
		{cli.ExitFailed, []string{"fit", job}, "job.csv is a job profile (needed: a sweep"},
		{cli.ExitFailed, []string{"fit", inspector[0]}, "is the output of NCCL's inspector (needed: a sweep"},
	} {
		if _, stderr := tunefit(t, c.code, c.args...); !strings.Contains(stderr, c.want) {
			t.Errorf("%q: got\n%s\nwant %s", c.args, stderr, c.want)
		}
		if _, err := os.Stat(out); err == nil {
			t.Fatalf("%q wrote a file", c.args)
		}
	}
}

// With a policy or a model it says what these decide and what that is expected to save; not where the job runs something
// else than NCCL's own choice already.
func TestProfileDecided(t *testing.T) {
	if testlib.Library == "" {
		t.Skip("SKIPPED: no library")
	}
	policy := testlib.File(t, "p.csv", "collective,min_bytes,max_bytes,algorithm,protocol,channels\nallgather,8M,9M,ring,ll,4\n")
	job := testlib.File(t, "job.csv", "# tunefit job profile 1\ncollective,nodes,ranks,bytes,calls_per_step,time_us\nallgather,1,8,8M,3,100\nallgather,1,8,10M,1,100\n")
	args := []string{"profile", job, "--policy", policy, "--plugin", testlib.Library}
	stdout, _ := tunefit(t, cli.ExitOK, args...)
	for _, want := range []string{"100 % of the communication time is allgather of 8MiB - 10MiB on 1x8 (400 us of 400 us a step)\n", "p.csv: decided is 75.0 % of that; what that saves is not known\n", "ring/ll", "p.csv:2"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing in\n%s", want, stdout)
		}
	}
	var j profileJSON
	if text, _ := tunefit(t, cli.ExitOK, append(args, "--json")...); json.Unmarshal([]byte(text), &j) != nil || j.Decided == nil || *j.Decided != 0.75 || j.Saved != nil || j.Calls[0].Outcome == nil || j.Calls[0].Outcome.Row != 2 {
		t.Errorf("%+v", j)
	}
}

// plan and sweep measure what the job calls, the heaviest first, at its sizes, and leave out what hardly counts.
func TestProfilePlanned(t *testing.T) {
	const head = "# tunefit job profile 1\ncollective,nodes,ranks,bytes,calls,time_us\n"
	job := testlib.File(t, "job.csv", head+"allreduce,1,8,100K,10,100\nallgather,1,8,9M,10,300\nallgather,1,8,5M,10,200\nreduce,1,8,8,1,10\nallreduce,1,8,,50,\n")
	stdout, stderr := tunefit(t, cli.ExitOK, "plan", "--profile", job, "--json")
	var plans []planJSON
	if err := json.Unmarshal([]byte(stdout), &plans); err != nil {
		t.Fatal(err)
	}
	const mib = 1 << 20
	if len(plans) != 2 || plans[0].Collective != "allgather" || !slices.Equal(plans[0].Runs[0].Sizes, []uint64{4 * mib, 8 * mib, 16 * mib}) ||
		plans[1].Collective != "allreduce" || !slices.Equal(plans[1].Runs[0].Sizes, []uint64{64 << 10, 128 << 10}) {
		t.Errorf("%+v", plans)
	}
	if !strings.Contains(stderr, "0.2 % of the job's communication are left out") {
		t.Errorf("notes: %s", stderr)
	}
	if stdout, _ = tunefit(t, cli.ExitOK, "plan", "--profile", job, "--coll", "allreduce", "--sizes", "1M", "--json"); !strings.Contains(stdout, `"allreduce"`) || strings.Contains(stdout, "allgather") || !strings.Contains(stdout, "1048576") {
		t.Errorf("chosen among: %s", stdout)
	}
	if _, stderr = tunefit(t, cli.ExitUsage, "plan", "--profile", job, "--comm", "2x8"); !strings.Contains(stderr, "no call of a known size is in it of the collectives and communicators that --coll and --comm name") {
		t.Errorf("nothing: %s", stderr)
	}
	if _, stderr = tunefit(t, cli.ExitFailed, "plan", "--profile", testlib.File(t, "sweep.csv", ringSweep)); !strings.Contains(stderr, "sweep.csv is a sweep: measurements (needed: a job profile)") {
		t.Errorf("no profile: %s", stderr)
	}
	library := testlib.File(t, "lib.so", "")
	if stdout, stderr = tunefit(t, cli.ExitOK, "sweep", "--profile", job, "--dry-run", "-o", filepath.Join(t.TempDir(), "sweep"), "--plugin", library); !strings.Contains(stdout, "allgather") || strings.Index(stdout, "allgather") > strings.Index(stdout, "allreduce") {
		t.Errorf("sweep: %s%s", stdout, stderr)
	}
}

// The mean over a job's calls is another than that over the sizes measured.
func TestProfileWeighed(t *testing.T) {
	sweep := testlib.File(t, "sweep.csv", "collective,size_bytes,dtype,algorithm,protocol,channels,nodes,ranks,selection,time_us\n"+
		"all_reduce,1048576,float,tree,ll,,1,8,default,100\nall_reduce,1048576,float,ring,ll,8,1,8,forced,50\n"+
		"all_reduce,4194304,float,tree,ll,,1,8,default,100\nall_reduce,4194304,float,ring,ll,8,1,8,forced,90\n")
	policy := testlib.File(t, "p.csv", "allreduce,0,8388608,ring,ll,8,1,8\n")
	job := testlib.File(t, "job.csv", "# tunefit job profile 1\ncollective,nodes,ranks,bytes,calls,time_us\nallreduce,1,8,1M,1,100\nallreduce,1,8,5M,3,100\nallreduce,1,8,64M,4,100\n")
	stdout, _ := tunefit(t, cli.ExitOK, "eval", policy, sweep, "--profile", job)
	if want := "job.csv: in this job, policy / default 0.800, policy / best 1.000, over 50.0 % of its communication time; the rest was not measured here\n"; !strings.Contains(stdout, want) {
		t.Errorf("got\n%s\nwant\n%s", stdout, want)
	}
	if _, stderr := tunefit(t, cli.ExitUsage, "eval", policy, sweep, "--profile", job, "--json"); !strings.Contains(stderr, "allowed: one of both") {
		t.Error(stderr)
	}
}
