package command

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit/report"
)

// printedProfile is what profile --json prints.
type printedProfile struct {
	Headline string
	ShareOf  string   `json:"share_of"`
	PerStep  bool     `json:"per_step"`
	Decided  *float64 `json:"decided_share"`
	Saved    *float64 `json:"expected_saving"`
	Calls    []struct {
		StepBytes float64 `json:"bytes_per_step"`
		StepCalls float64 `json:"calls_per_step"`
		DecidedBy string  `json:"decided_by"`
		Outcome   *ask.Outcome
	}
}

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
	const headline = "61 % of the communication time is allgather of 8MiB - 12MiB on 2x2 (3.007 ms of 4.969 ms a " +
		"step)\n"
	if !strings.HasPrefix(printed, headline) {
		t.Errorf("got\n%s\nwant first\n%s", printed, headline)
	}
	if direct, _ := tunefit(t, cli.ExitOK, append([]string{"profile", "--steps", "2"},
		files...)...); direct != printed {
		t.Errorf("of the files themselves\n%s\nof the profile\n%s", direct, printed)
	}
	if again, _ := tunefit(t, cli.ExitOK, "import", filepath.Dir(log), "--steps",
		"2"); func() string { text, _ := os.ReadFile(job); return string(text) }() != again {
		t.Errorf("of the directory\n%s", again)
	}
	if shapes, _ := tunefit(t, cli.ExitOK, "import", "--profile", log); !strings.Contains(shapes,
		"allgather,2,4,8388608,,,,ring,simple,8,policy.csv:2\n") {
		t.Errorf("of a log\n%s", shapes)
	}
	var j printedProfile
	if text, _ := tunefit(t, cli.ExitOK, "profile", job,
		"--json"); json.Unmarshal([]byte(text), &j) != nil || j.ShareOf != "time" || !j.PerStep || len(j.Calls) != 5 ||
		j.Headline+"\n" != headline || j.Calls[1].StepBytes != 3*12<<20 {
		t.Errorf("%+v", j)
	}
}

// Calls that ran as what no tuner chooses are counted, and no policy is said to decide them.
func TestProfilePastTuner(t *testing.T) {
	dir := filepath.Dir(testlib.File(t, "record-n-1-1.json", `{"nccl_tuner_record":1,"host":"n","pid":1,"communicators":`+
		`[{"id":"a","rank":0,"ranks":4,"nodes":1,"calls":[{"collective":"allreduce","bytes":1024,"calls":1100},`+
		`{"collective":"allreduce","bytes":1024,"algorithm":"ring","protocol":"ll","channels":2,"calls":100},`+
		`{"collective":"allgather","bytes":1024,"algorithm":"ring","protocol":"ll","channels":2,"calls":10}]}]}`))
	stdout, _ := tunefit(t, cli.ExitOK, "profile", dir)
	holds(t, stdout, "90.9 % allreduce 1x4 1KiB 1100 - - - no tuner")
	job := filepath.Join(t.TempDir(), "job.csv")
	tunefit(t, cli.ExitOK, "import", dir, "--steps", "100", "-o", job)
	policy := testlib.File(t, "p.csv", "allreduce,0,inf,tree,simple,-1,-1,-1\n")
	stdout, _ = tunefit(t, cli.ExitOK, "profile", job, "--policy", policy, "--json")
	var j printedProfile
	if err := json.Unmarshal([]byte(stdout), &j); err != nil {
		t.Fatal(err)
	}
	for _, c := range j.Calls {
		if past := c.DecidedBy == "no tuner"; past != (c.StepCalls == 11) || past != (c.Outcome == nil) {
			t.Errorf("%+v", c)
		}
	}
	stdout, _ = tunefit(t, cli.ExitOK, "profile", job, "--policy", policy)
	holds(t, stdout, policy+": 8.3 % of that is decided; what that saves is not known")
}

// weighed is what a row is worth to a job that gains 50 % at 1 MiB and 10 % at 4 MiB, where that was measured, and
// stops short of 6 MiB. No winner was lucky.
func weighed(t *testing.T, job string) *fit.Worth {
	t.Helper()
	sweep, err := testlib.Measurements(testlib.File(t, "sweep.csv",
		"collective,size_bytes,dtype,algorithm,protocol,channels,nodes,ranks,selection,time_us\n"+
			"all_reduce,1048576,float,tree,ll,,1,8,default,100\nall_reduce,1048576,float,ring,ll,8,1,8,forced,50\n"+
			"all_reduce,4194304,float,tree,ll,,1,8,default,400\nall_reduce,4194304,float,ring,ll,8,1,8,forced,360\n"+
			"all_reduce,4194304,float,ring,simple,8,1,8,forced,320\n"))
	if err != nil {
		t.Fatal(err)
	}
	pool := fit.NewPool()
	for range 2 { // of what was measured once no gain is promised
		for i := range sweep.Samples {
			pool.Add(&sweep.Samples[i])
		}
	}
	profile, err := readProfile(testkit.Env.Inputs, job)
	if err != nil {
		t.Fatal(err)
	}
	row := fit.Row{Key: fit.Key{Coll: nccl.CollAllReduce, Comm: nccl.Comm{Nodes: 1, Ranks: 8}},
		Config: config("ring/ll/8"), Bytes: nccl.Range{Max: 6291455}}
	noLuck := &fit.Report{Groups: []fit.GroupReport{{Genuine: []float64{1, 1}}}}
	return fit.NewWorth(profile, pool.Set(), fit.DecideByRows([]fit.Row{row}), noLuck)
}

const jobHead = "# tunefit job profile 1\ncollective,nodes,ranks,bytes,calls,calls_per_step,time_us,algorithm,protocol,channels,decided_by\n"

// The headline is in time of communication a step; the ratios of the measurements count, the times are the job's.
func TestProfileWeighed(t *testing.T) {
	for _, c := range []struct {
		name, job string
		want      []string
	}{
		{"a step", "allreduce,1,8,1M,2,1,200,,,,\nallreduce,1,8,5M,6,3,500,,,,\nallreduce,1,8,64M,2,1,1700,,,,\n",
			[]string{
				": 1.7 ms of communication a step by NCCL's default, 1.45 ms by the policy (15 % less), 1.3 ms by " +
					"the best measured\n",
				"  that is of 50.0 % of the job's communication time; not measured here: allreduce on 1x8 of 64MiB " +
					"(50.0 %) (tunefit sweep --profile measures it)\n",
				"allreduce 1x8  1.7 ms   1.45 ms  1.3 ms  0.853             1.115          50.0 %\n"}},
		{"no steps", "allreduce,1,8,1M,2,,200,,,,\n",
			[]string{": 400 us of communication in all that was recorded by NCCL's default, 200 us by the policy " +
				"(50 % less)"}},
		// At 7 MiB no row decides, though one does at the nearest size measured.
		{"beyond the rows", "allreduce,1,8,7M,2,1,600,,,,\n",
			[]string{": 600 us of communication a step by NCCL's default, 600 us by the policy (no gain), " +
				"480 us by"}},
		// What the job runs is known: its time is not that of NCCL's default.
		{"a policy runs", "allreduce,1,8,4M,2,1,360,ring,ll,8,old.csv:2\n",
			[]string{": 400 us of communication a step by NCCL's default, 360 us by the policy (10 % less), 320 " +
				"us by the best measured; as the job runs now 360 us\n"}},
		{"NCCL runs", "allreduce,1,8,4M,2,1,380,ring,ll,,NCCL\n",
			[]string{": 380 us of communication a step by NCCL's default, 342 us by the policy"}},
		{"another runs", "allreduce,1,8,4M,2,1,380,ring,ll128,,\n",
			[]string{": not known: of none of the job's calls it was measured",
				"  that is of 0.0 % of the job's communication time; not measured here: allreduce on 1x8 of 4MiB " +
					"(100.0 %) (tunefit sweep --profile measures it)\n"}},
		{"no tuner", "allreduce,1,8,4M,2,1,380,,,,no tuner\n",
			[]string{": not known: of none of the job's calls it was measured"}},
		{"no times", "allreduce,1,8,2M,2,1,,,,,\nallreduce,1,8,8M,2,1,,,,,\n",
			[]string{": 200 us of communication a step by NCCL's default, 100 us by the policy (50 % less)",
				"that is of 20.0 % of the job's bytes", "own times are not known"}},
		{"some of unknown size", "allreduce,1,8,1M,2,1,200,,,,\nallreduce,1,8,,7,3.5,,,,,\n",
			[]string{"  not counted: 3.5 calls a step whose size or time is not known\n"}},
		{"no counts", "allreduce,1,8,1M,,,200,,,,\n", []string{": nothing tells how often the job makes its calls"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := testlib.File(t, "job.csv", jobHead+c.job)
			worth := weighed(t, job)
			var said strings.Builder
			writeWorth(&said, worth, job, false)
			if m := lacks(said.String(), c.want...); len(m) > 0 {
				t.Errorf("no %q in\n%s", m, said.String())
			}
			if !strings.Contains(said.String(), "\n"+job+": "+report.JobHeadline(worth)+"\n") ||
				c.name == "a step" && (math.Abs(worth.Policy-1450) > 1e-6 || worth.Covered != 0.5) {
				t.Errorf("%+v", worth)
			}
		})
	}
}

// fit says what its policy is worth to a job, and so does its page; the policy is the same as without.
func TestFitForAJob(t *testing.T) {
	sweep, job := filepath.Join(testlib.Root, "docs/measured/mi355x-allreduce.csv"), filepath.Join(testlib.Root,
		"bench/profile/testdata/by-hand.csv")
	dir := t.TempDir()
	plain, csv, page := filepath.Join(dir, "plain.csv"), filepath.Join(dir, "p.csv"), filepath.Join(dir, "r.html")
	tunefit(t, cli.ExitOK, "fit", sweep, "--csv", plain)
	stdout, _ := tunefit(t, cli.ExitOK, "fit", sweep, "--profile", job, "--csv", csv, "--report", page)
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if read(plain) != read(csv) {
		t.Error("another policy with a profile")
	}
	const headline = "8.248 ms of communication a step by NCCL's default, 5.446 ms by the policy (one run each: not sure), " +
		"5.446 ms by the best measured"
	if !strings.HasPrefix(stdout, "\nby-hand.csv: "+headline+"\n") {
		t.Error(stdout)
	}
	if m := lacks(read(page), "In the job by-hand.csv", strings.ReplaceAll(headline, "'", "&#39;"),
		"not measured here: allgather on 2x8 of 8MiB (3.1 %)", "<b>one run each: not sure</b>", "<td>not sure</td>"); len(m) > 0 {
		t.Errorf("the page has no %q", m)
	}
	if _, stderr := tunefit(t, cli.ExitFailed, "fit", sweep, "--profile", sweep, "--csv", csv,
		"--force"); !strings.Contains(stderr, "(needed: a job profile)") {
		t.Error(stderr)
	}
	if _, stderr := tunefit(t, cli.ExitFailed, "fit", sweep, "--profile", job, "--csv", job,
		"--force"); !strings.Contains(stderr, "is read, and would be overwritten") {
		t.Error(stderr)
	}
	if _, stderr := tunefit(t, cli.ExitUsage, "sweep", "--profile", "-", "-o",
		filepath.Join(dir, "sweep")); !strings.Contains(stderr, "standard input can be read only once") {
		t.Error(stderr)
	}
}

// docs/PROFILE.md shows what is printed.
func TestProfilePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testlib.Root, "docs/PROFILE.md"))
	if err != nil {
		t.Fatal(err)
	}
	inspector, log := jobFiles(t)
	printed, _ := tunefit(t, cli.ExitOK, append([]string{"profile", "--steps", "2", log}, inspector...)...)
	fitted, _ := tunefit(t, cli.ExitOK, "fit", filepath.Join(testlib.Root, "docs/measured/mi355x-allreduce.csv"),
		"--profile", filepath.Join(testlib.Root, "bench/profile/testdata/by-hand.csv"))
	known := map[string]bool{}
	for line := range strings.Lines(printed + fitted) {
		known[strings.TrimSpace(line)] = true
	}
	shown := 0
	for line := range strings.Lines(string(page)) {
		if line, ok := strings.CutPrefix(line, "    "); ok && !strings.HasPrefix(line, "export ") {
			if shown++; !known[strings.TrimSpace(line)] {
				t.Errorf("nothing prints %q", line)
			}
		}
	}
	if shown < 5 {
		t.Errorf("%d lines are shown", shown)
	}
}

// jobLog is the log of a training job's first rank, without the library.
const jobLog = `step 0
t0:411:411 [0] NCCL INFO NCCL version 2.30.7+cuda13.0
%st0:411:530 [0] NCCL INFO comm 0x55d0 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0
t0:411:411 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x7f count 1 datatype 7 op 0 root 0 comm 0x55d0 [nranks=16] stream 0x5
t0:411:411 [0] NCCL INFO AllReduce: 4 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..0}
t0:411:411 [0] NCCL INFO AllReduce: opCount 1 sendbuff 0x7f count 26214400 datatype 9 op 0 root 0 comm 0x55d0 [nranks=16] stream 0x5
t0:411:411 [0] NCCL INFO AllReduce: 52428800 Bytes -> Algo NVLSTREE proto SIMPLE channel{Lo..Hi}={0..15}
t0:411:411 [0] NCCL INFO AllGather: opCount 3 sendbuff 0x7f count 1048576 datatype 9 op 0 root 0 comm 0x55d0 [nranks=16] stream 0x5
t0:411:411 [0] NCCL INFO AllGather [Symmetric]: 2097152 Bytes -> Kernel AllGather_LL nchannels 4 nthreads 512 nWorks 1
`

// A job's own log tells what ran, and with a policy why something else ran than it says.
func TestProfileOfALog(t *testing.T) {
	policy := testlib.File(t, "p.csv", "collective,min_bytes,max_bytes,algorithm,protocol,channels\n"+
		"allreduce,0,1K,tree,ll,\nallreduce,32M,64M,ring,ll128,\nallgather,0,inf,ring,simple,\n")
	started := "t0:411:530 [0] NCCL INFO TUNER/Go: start library=0.3.0 comm=0x1 ranks=16 nodes=2 abi=6 policy=q.csv\n"
	for before, why := range map[string]string{
		"": "the library was not loaded",
		"t0:411:411 [0] NCCL INFO NCCL_ALGO set by environment to NVLSTree.\n": "NCCL_ALGO=NVLSTree",
		started: "not available, or another policy (NCCL_TUNER_LOG=decisions tells)",
		started + "t0:411:530 [0] NCCL INFO TUNER/Go: available comm=0x1 coll=allreduce cells=\"tree/ll nvls_tree/simple\"\n": "ring/ll128 was not available",
	} {
		log := fmt.Sprintf(jobLog, before)
		out, _ := tunefit(t, cli.ExitOK, "profile", testlib.File(t, "job.log.gz", testlib.Zipped(t, log)), "--policy", policy)
		text := strings.Join(strings.Fields(out), " ")
		for _, want := range []string{
			"50MiB 1 - - nvls_tree/simple 16 ch - ring/ll128 p.csv:3 - - " + why,
			"4 1 - - tree/ll 1 ch - tree/ll p.csv:2 - - -",
			"32MiB 1 - - - no tuner - - - - a symmetric kernel or the like: no tuner chooses it",
		} {
			if !strings.Contains(strings.ReplaceAll(text, policy, "p.csv"), want) {
				t.Errorf("%q: no %q in\n%s", before, want, out)
			}
		}
	}
	// Rows for a release are asked as for the one that the log names.
	pinned := testlib.File(t, "pinned.csv", "collective,min_bytes,max_bytes,algorithm,protocol,nccl\n"+
		"allreduce,32M,64M,ring,ll128,2.28.9\nallreduce,32M,64M,tree,ll,\n")
	for said, row := range map[string]string{"NCCL version 2.28.9+cuda12": "ring/ll128", "NCCL version 2.30.7": "tree/ll",
		"RCCL version : 2.28.9-HEAD:1": "ring/ll128", "NCCL version 2.19.3": "tree/ll", "nothing": "tree/ll"} {
		log := testlib.File(t, "job.log", strings.Replace(fmt.Sprintf(jobLog, ""), "NCCL version 2.30.7+cuda13.0", said, 1))
		for args, want := range map[string]string{"": row, "--nccl=2.28.9": "ring/ll128"} {
			out, _ := tunefit(t, cli.ExitOK, append([]string{"profile", log, "--policy", pinned}, strings.Fields(args)...)...)
			if !strings.Contains(strings.Join(strings.Fields(out), " "), "nvls_tree/simple 16 ch - "+want+" ") {
				t.Errorf("%s %s: not %s in\n%s", said, args, want, out)
			}
		}
	}
	none := testlib.File(t, "none.csv", "collective,min_bytes,max_bytes,algorithm,protocol\nbroadcast,0,inf,ring,ll\n")
	log := testlib.File(t, "job.log", fmt.Sprintf(jobLog, ""))
	if out, _ := tunefit(t, cli.ExitOK, "profile", log, "--policy", none); !strings.Contains(out, "no row matches") {
		t.Errorf("%s", out)
	}
	out, _ := tunefit(t, cli.ExitOK, "profile", log)
	holds(t, out, "61.0 % allreduce 2x8 50MiB 1 - - nvls_tree/simple 16 ch -", "0.0 % allreduce 2x8 4 1 - - tree/ll 1 ch -")
	job := filepath.Join(t.TempDir(), "job.csv")
	tunefit(t, cli.ExitOK, "import", "--profile", log, "-o", job)
	if again, _ := tunefit(t, cli.ExitOK, "profile", job); again != out {
		t.Errorf("of the profile\n%s\nof the log\n%s", again, out)
	}
	if field := filepath.Join(testlib.Root, "../shared/field/job-log/train.log"); exists(field) {
		out, _ := tunefit(t, cli.ExitOK, "profile", field)
		holds(t, out, "0.0 % allreduce 2x8 4 1 - - ring/ll 1 ch -", "75.8 % allreduce 2x8 50MiB 2 - - nvls_tree/simple 16 ch -",
			"24.2 % allgather 2x8 32MiB 1 - - pat/simple 4 ch -")
	} else {
		t.Logf("%s is not there", field)
	}
	// What tells nothing says what to set.
	for text, want := range map[string]string{
		"t0:4:4 [0] NCCL INFO comm 0xa rank 0 nRanks 8 nNodes 1 localRanks 8\n": "NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING,COLL",
		"t0:4:4 [0] NCCL INFO ncclDdaIpcCommInit: scratch 1 bytes\n":            "RCCL_DDA_ENABLE=0",
		"step 1\n": "NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING,COLL",
	} {
		if _, said := tunefit(t, cli.ExitFailed, "profile", testlib.File(t, "x.log", text)); !strings.Contains(said, want) {
			t.Errorf("%q: %s", text, said)
		}
	}
	if _, said := tunefit(t, cli.ExitFailed, "import", log); !strings.Contains(said, "tunefit profile prints what") {
		t.Errorf("%s", said)
	}
}

// The recorder's file says why, too.
func TestProfileWhyOfTheRecorder(t *testing.T) {
	policy := testlib.File(t, "p.csv", "allreduce,0,inf,ring,ll,-1,-1,-1\n")
	recorded := testlib.File(t, "job.json", `{"nccl_tuner_record":1,"host":"a","pid":1,"communicators":[{"id":"0x1","rank":0,`+
		`"nodes":1,"ranks":8,"calls":[`+
		`{"collective":"allreduce","bytes":1024,"algorithm":"tree","protocol":"ll","channels":2,"calls":3,"decided_by":"q.csv:2"},`+
		`{"collective":"allreduce","bytes":2048,"channels":2,"calls":3}]}]}`)
	out, _ := tunefit(t, cli.ExitOK, "profile", recorded, "--policy", policy)
	for _, want := range []string{"the job's policy: q.csv:2", "a symmetric kernel or the like: no tuner chooses it"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
