package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

const ringLine = "host0:100:100 [0] NCCL INFO NCCL_ALGO set by environment to Ring\n"

// ringLog is a short run of two ranks: a zero size, a good row and one whose
// in-place half failed.
const ringLog = `# Collective test starting: all_reduce_perf
host0:100:100 [0] NCCL INFO NCCL_ALGO set by environment to Ring
# nThread 1 nGpus 2 minBytes 0 maxBytes 2097152 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
# Using devices
#  Rank  0 Group  0 Pid    100 on      host0 device  0 [0000:10:00] Example GPU
#  Rank  1 Group  0 Pid    100 on      host0 device  1 [0000:11:00] Example GPU
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
           0             0     float     sum      -1     0.25    0.00    0.00       0     0.25    0.00    0.00       0
     1048576        262144     float     sum      -1    41.50   25.27   25.27       0    40.25   26.05   26.05       0
     2097152        524288     float     sum      -1    61.50   34.10   34.10       0    60.25   34.81   34.81       3
# Out of bounds values : 3 FAILED
# Avg bus bandwidth    : 20.1
`

const ringSweep = `collective,size_bytes,dtype,redop,algorithm,protocol,channels,nodes,ranks,inplace,selection,time_us,algbw_gbps,busbw_gbps,source,start,pass,gpu_model,hosts,nccl_version,driver_version,measured_at,tuner,options
all_reduce,1048576,float,sum,ring,,,1,2,0,forced,41.5,25.27,25.27,LOG:9,1,1,Example GPU,host0,,,,,-t 1 -g 2 -n 20 -w 5
all_reduce,1048576,float,sum,ring,,,1,2,1,forced,40.25,26.05,26.05,LOG:9,1,1,Example GPU,host0,,,,,-t 1 -g 2 -n 20 -w 5
all_reduce,2097152,float,sum,ring,,,1,2,0,forced,61.5,34.1,34.1,LOG:10,1,1,Example GPU,host0,,,,,-t 1 -g 2 -n 20 -w 5
`

func TestImport(t *testing.T) {
	log := testlib.File(t, "run.txt", ringLog)
	out := filepath.Join(t.TempDir(), "sweep.csv")
	want := strings.ReplaceAll(ringSweep, "LOG", log)

	stdout, stderr := tunefit(t, cli.ExitOK, "import", log)
	if stdout != want {
		t.Errorf("got\n%s\nwant\n%s", stdout, want)
	}
	summary := strings.ReplaceAll(`
LOG:8: rejected 2: zero size
LOG:10: rejected 1: failed validation
`[1:], "LOG", log)
	if fields := strings.Fields(stderr); !strings.HasSuffix(stderr, summary) ||
		strings.Join(fields[6:12], " ") != log+" nccl-tests text 3 3 variables" {
		t.Errorf("summary\n%s", stderr)
	}

	if stdout, _ = tunefit(t, cli.ExitOK, "import", log, "-o", out); stdout != "" {
		t.Errorf("standard output beside -o: %s", stdout)
	}
	if got, err := os.ReadFile(out); err != nil || string(got) != want {
		t.Errorf("%v: got\n%s\nwant\n%s", err, got, want)
	}
	again, _ := tunefit(t, cli.ExitOK, "import", out)
	if again != want {
		t.Errorf("a sweep imported again changed:\n%s", again)
	}
}

// A file is written whole or not at all, and never over another unasked.
func TestImportWritesWholeOrNotAtAll(t *testing.T) {
	log := testlib.File(t, "run.txt", ringLog)
	stray := testlib.File(t, "notes.txt", "nothing measured here\n")
	zero := testlib.File(t, "zero.csv", "collective,size_bytes,time_us\nall_reduce,0,1\n")
	dir := t.TempDir()
	out := filepath.Join(dir, "sweep.csv")

	for _, args := range [][]string{
		{"import", log, stray, "-o", out},
		{"import", filepath.Join(dir, "missing"), "-o", out},
		{"import", zero, "-o", out},
		{"import", log, "-o", filepath.Join(dir, "no", "such", "dir.csv")},
	} {
		_, stderr := tunefit(t, cli.ExitFailed, args...)
		if strings.Contains(stderr, "/.dir.csv") {
			t.Errorf("a temporary file is named: %s", stderr)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%v left %v", args, left)
		}
	}
	if err := os.WriteFile(out, []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, stderr := tunefit(t, cli.ExitFailed, "import", log, "-o", out)
	if got, _ := os.ReadFile(out); string(got) != "precious" || !strings.Contains(stderr, "--force") {
		t.Errorf("overwritten unasked: %s\n%s", got, stderr)
	}
	tunefit(t, cli.ExitOK, "import", log, "-o", out, "--force")
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left %v", left)
	}
}

// NCCL's log in a file of its own is read with the run that lists its process. Without a run it is an error.
func TestImportOfLogsApart(t *testing.T) {
	run := testlib.File(t, "run.out", strings.Replace(ringLog, ringLine, "", 1))
	const said = "host0:100:100 [0] NCCL INFO NCCL_ALGO set by environment to Tree\n" +
		"host0:100:101 [0] NCCL INFO AllReduce: 1048576 Bytes -> Algo TREE proto LL channel{Lo..Hi}={0..3}\n"
	log := testlib.File(t, "nccl.host0.100.log", said)
	for _, files := range [][]string{{run, log}, {log, run}} {
		out, said := tunefit(t, cli.ExitOK, append([]string{"import"}, files...)...)
		if !strings.Contains(out, "all_reduce,1048576,float,sum,tree,ll,4,") ||
			!strings.Contains(said, log+": NCCL's log of the run in "+run+", read with it\n") {
			t.Errorf("%s\n%s", said, out)
		}
	}
	if _, said := tunefit(t, cli.ExitFailed, "import", log); !strings.Contains(said, "NCCL's log of host0:100 without a time") {
		t.Error(said)
	}
	// Of containers the processes are often alike: two logs may be of the run, or one is of another run.
	also := testlib.File(t, "nccl.host0.100.log", said+"host0:100:101 [0] NCCL INFO x\n")
	if _, said := tunefit(t, cli.ExitFailed, "import", run, log, also); !strings.Contains(said, run+": each of "+log+", "+
		also+" may be NCCL's log of its process host0:100 (needed: one, in the folder of the run)") {
		t.Error(said)
	}
	other := testlib.File(t, "other.log", said+ringLog)
	if out, _ := tunefit(t, cli.ExitOK, "import", run, other); !strings.Contains(out, "all_reduce,1048576,float,sum,,,,") {
		t.Error(out)
	}
}

func TestImportOptions(t *testing.T) {
	bare := testlib.File(t, "x.csv", "size_bytes,time_us\n1024,12.5\n")
	tunefit(t, cli.ExitFailed, "import", bare)
	stdout, _ := tunefit(t, cli.ExitOK, "import", bare, "--coll", "AllGather", "--comm", "2x8")
	if !strings.Contains(stdout, "\nall_gather,1024,,,,,,2,16,0,default,12.5,,,") {
		t.Errorf("got\n%s", stdout)
	}
	tunefit(t, cli.ExitUsage, "import")
	tunefit(t, cli.ExitUsage, "import", bare, "--coll", "alreduce")
	tunefit(t, cli.ExitUsage, "import", bare, "--comm", "8")
}

// A file's name and what a file says of its hosts neither steer the terminal nor make up lines.
func TestForeignNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a\x1b[2J\nforged.csv")
	text := strings.ReplaceAll(strings.ReplaceAll(ringSweep, ",ring,,,", ",ring,ll,8,"), ",host0,",
		",\"evil\x1b[2J\nforged\",")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	model := filepath.Join(t.TempDir(), "model.json")
	for _, args := range [][]string{{"import", file, "-o", model + ".csv"}, {"fit", file, "-o", model}} {
		_, stdout, stderr := runAlone(args...)
		if said := stdout + stderr; strings.Contains(said, "\x1b") || strings.Contains(said, "\nforged") ||
			!strings.Contains(said, `\u001b[2J\u000aforged`) {
			t.Errorf("%s: %q", args[0], said)
		}
	}
}

// A directory stands for the logs in it and below; what else is there is named and left out.
func TestImportDirectory(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.txt": ringLog, "below/b.txt.gz": testlib.Zipped(t, strings.ReplaceAll(ringLog, "host0", "host1")),
		"below/README": "hello\n", "p.csv": sample,
		".hidden/c.txt": ringLog + "\n\n", "failed.txt": "srun: error: node7: task 3: Segmentation fault\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, said := tunefit(t, cli.ExitOK, "import", dir)
	if strings.Count(out, "\n") != 7 || !strings.Contains(out, "host1") {
		t.Errorf("imported\n%s", out)
	}
	for _, want := range []string{"left out: " + filepath.Join(dir, "below/README"),
		"left out: " + filepath.Join(dir, "p.csv") + " is a policy", "the run failed", "Segmentation fault"} {
		if !strings.Contains(said, want) {
			t.Errorf("says\n%s\nwant %q", said, want)
		}
	}
}

// Programs read what became of each file, and nothing else is printed.
func TestImportJSON(t *testing.T) {
	log := testlib.File(t, "run.txt", ringLog)
	dir := filepath.Dir(log)
	for name, text := range map[string]string{"again.txt": ringLog, "notes.txt": "nothing measured here\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out := filepath.Join(t.TempDir(), "sweep.csv")
	stdout, _ := tunefit(t, cli.ExitOK, "import", dir, "-o", out, "--json")
	want := strings.NewReplacer("DIR", dir, "OUT", out).Replace(`{
  "output": "OUT",
  "rows": 3,
  "files": [
    {
      "file": "DIR/again.txt",
      "format": "nccl-tests text",
      "kept": 3,
      "assumed_default": 0,
      "labels": {
        "variables": 3
      },
      "rejected": [
        {
          "at": "DIR/again.txt:8",
          "count": 2,
          "reason": "zero size"
        },
        {
          "at": "DIR/again.txt:10",
          "count": 1,
          "reason": "failed validation"
        }
      ]
    }
  ],
  "notes": [
`)
	if !strings.HasPrefix(stdout, want) || !strings.Contains(stdout, "notes.txt") || !strings.Contains(stdout, "read once") {
		t.Errorf("%s\nwant %s", stdout, want)
	}
	if _, err := os.Stat(out); err != nil {
		t.Error(err)
	}
	_, stderr := tunefit(t, cli.ExitUsage, "import", log, "--json")
	if !strings.Contains(stderr, "--json needs -o FILE") {
		t.Error(stderr)
	}
}
