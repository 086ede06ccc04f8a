package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// logs are runs of NCCL 2.27.3 and 2.29.2, three of each, in which two sizes become slower and one faster.
func logs(t *testing.T, side string) (files []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(testlib.Root, "bench/compare/testdata", side+"-*.log"))
	if err != nil || len(files) != 3 {
		t.Fatal(files, err)
	}
	return files
}

func beforeAndAfter(t *testing.T, flags ...string) []string {
	return append(append(append(append([]string{"compare"}, flags...), logs(t, "before")...), "--"),
		logs(t, "after")...)
}

func lacks(text string, parts ...string) (missing []string) {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			missing = append(missing, p)
		}
	}
	return missing
}

func TestCompare(t *testing.T) {
	out, said := tunefit(t, cli.ExitFailed, beforeAndAfter(t)...)
	if m := lacks(out, "before: 18 times of 3 runs\n",
		"both: GPU Example GPU, hosts node0 node1, options of nccl-tests -t 1 -g 1 -n 20 -w 5\n",
		"NCCL: 2.27.3 -> 2.29.2\n", "allreduce 2x4, float sum out-of-place\n",
		"512KiB   66.68      73.14     1.097  [1.082,1.119]  slower   <.001  3     13.76 -> 12.54  ring/ll128/16 -> "+
			"ring/simple/16\n",
		"128KiB   38.10      37.76     0.991  [0.976,1.019]  ~        0.755  3     6.02 -> 6.07    tree/ll/8\n",
		"of 6 sizes: 2 slower (2 by more than 1 %), 1 faster, 3 without significant difference (~)\n"); len(m) > 0 {
		t.Errorf("no %q in\n%s", m, out)
	}
	if m := lacks(said, "left out before: 18 times: float sum in-place (--all compares them, too)\n"); len(m) > 0 {
		t.Errorf("no %q in\n%s", m, said)
	}
	for line := range strings.Lines(out) {
		if len(line) > 125 {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	// What became slower by 10 % is not by 12 %.
	tunefit(t, cli.ExitOK, beforeAndAfter(t, "--threshold", "12%")...)
	tunefit(t, cli.ExitOK, beforeAndAfter(t, "--threshold", "0.12")...)
	// The other way round one size is slower.
	reversed := append(append([]string{"compare"}, logs(t, "after")...), "--")
	out, _ = tunefit(t, cli.ExitFailed, append(reversed, logs(t, "before")...)...)
	if m := lacks(out, "of 6 sizes: 1 slower (1 by more than 1 %), 2 faster"); len(m) > 0 {
		t.Errorf("no %q in\n%s", m, out)
	}
	out, _ = tunefit(t, cli.ExitFailed, beforeAndAfter(t, "--all")...)
	if strings.Count(out, "allreduce 2x4, float sum ") != 2 ||
		!strings.Contains(out, "\nall: geometric mean of 12 ratios ") {
		t.Error(out)
	}
}

// A directory stands for its logs, and single runs have no verdict.
func TestCompareFewFiles(t *testing.T) {
	var dirs []string
	for _, side := range []string{"before", "after"} {
		dir := t.TempDir()
		for _, file := range logs(t, side) {
			if err := os.Symlink(file, filepath.Join(dir, filepath.Base(file))); err != nil {
				t.Fatal(err)
			}
		}
		dirs = append(dirs, dir)
	}
	want, _ := tunefit(t, cli.ExitFailed, beforeAndAfter(t)...)
	if out, _ := tunefit(t, cli.ExitFailed, "compare", dirs[0], dirs[1]); out != want {
		t.Errorf("directories:\n%sfiles:\n%s", out, want)
	}
	before, after := logs(t, "before")[0], logs(t, "after")[0]
	out, _ := tunefit(t, cli.ExitOK, "compare", before, after)
	if m := lacks(out, "note: 1 repetition: the run-to-run variation is not known"); len(m) > 0 {
		t.Errorf("no %q in\n%s", m, out)
	}
	out, _ = tunefit(t, cli.ExitOK, "compare", "--turns", before, after)
	if m := lacks(out, "note: made in turns, but not compared pair by pair (needed: as many runs of a size before as "+
		"after, 4 or more"); len(m) > 0 {
		t.Errorf("no %q in\n%s", m, out)
	}
	out, said := tunefit(t, cli.ExitOK, "compare", before, before)
	if !strings.Contains(said, "holds the same as ") || !strings.Contains(out, " 1.000 ") {
		t.Errorf("%s%s", out, said)
	}
}

// Words in the names of files, which keep rows out of a fit, keep nothing out of a comparison.
// What is said of several files comes in their order, in every run.
func TestCompareNotesInOrder(t *testing.T) {
	args := slices.Concat([]string{"compare"}, logs(t, "before"), []string{"--"}, logs(t, "before"))
	for range 5 {
		_, said := tunefit(t, cli.ExitOK, args...)
		var files []string
		for line := range strings.Lines(said) {
			if file, _, same := strings.Cut(line, ": holds the same as "); same {
				files = append(files, file)
			}
		}
		if len(files) != 3 || !slices.IsSorted(files) {
			t.Fatalf("notes are not in the files' order:\n%s", said)
		}
	}
}

// Rows of a setting that is only mentioned are refused beside another one, in the text and for a program, with the flag
// that answers. After the answer they are compared, and the table names what differs.
func TestCompareUnknownSettings(t *testing.T) {
	_, run, _ := strings.Cut(ringLog, "\n")
	var files [2]string
	for i, qps := range []string{"1", "4"} {
		files[i] = testlib.File(t, "run"+qps+".log", "mpirun -x NCCL_IB_QPS_PER_CONNECTION="+qps+" ./all_reduce_perf -g 8\n"+
			strings.Replace(run, "41.50", qps+"1.50", 1))
	}
	const why = "NCCL_IB_QPS_PER_CONNECTION=1?, and after has NCCL_IB_QPS_PER_CONNECTION=4? (tell tunefit import what ran, " +
		"by --with NCCL_IB_QPS_PER_CONNECTION=1, or"
	out, said := tunefit(t, cli.ExitFailed, "compare", files[0], files[1])
	if out != "" || !strings.Contains(said, why) || !strings.Contains(said, "nothing to compare") {
		t.Errorf("%s%s", out, said)
	}
	out, _ = tunefit(t, cli.ExitFailed, "compare", files[0], files[1], "--json")
	var found struct {
		Groups []any
		Left   []struct{ Reason string } `json:"left_out"`
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil || len(found.Groups) > 0 || len(found.Left) != 2 ||
		!strings.Contains(found.Left[0].Reason, why) {
		t.Errorf("%v %s", err, out)
	}
	var known [2]string
	for i, qps := range []string{"1", "4"} {
		known[i] = filepath.Join(t.TempDir(), qps+".csv")
		tunefit(t, cli.ExitOK, "import", files[i], "--with", "NCCL_IB_QPS_PER_CONNECTION="+qps, "-o", known[i])
	}
	out, _ = tunefit(t, cli.ExitOK, "compare", known[0], known[1])
	if m := lacks(out, "variables: NCCL_IB_QPS_PER_CONNECTION=1 -> NCCL_IB_QPS_PER_CONNECTION=4\n",
		"note: the sides differ in variables: that may be all of the difference\n"); len(m) > 0 {
		t.Errorf("no %q in\n%s", m, out)
	}
}

// On a narrow terminal each cell has a line.
func TestCompareNarrow(t *testing.T) {
	var text, errs bytes.Buffer
	testkit.Run("", beforeAndAfter(t), cli.Columns{Writer: &text, Most: 40}, &errs)
	out := text.String()
	if m := lacks(out, "\nsize: 512KiB\n  before us: 66.68\n  after us: 73.14\n  ratio: 1.097\n  interval: [1.082,1.119]\n"+
		"  verdict: slower\n  p: <.001\n  reps: 3\n  GB/s: 13.76 -> 12.54\n  ran: ring/ll128/16 -> ring/simple/16\n",
		"\nsize: geomean\n  ratio: 1.014\n"); len(m) > 0 {
		t.Errorf("no %q in\n%s", m, out)
	}
}

func TestCompareOfAnyName(t *testing.T) {
	_, run, _ := strings.Cut(ringLog, "\n")
	out, _ := tunefit(t, cli.ExitOK, "compare", testlib.File(t, "tree.log", run), "--",
		testlib.File(t, "ring.log", strings.Replace(run, "41.50", "21.50", 1)))
	if !strings.Contains(out, "  0.518 ") {
		t.Error(out)
	}
}

func TestCompareJSON(t *testing.T) {
	out, _ := tunefit(t, cli.ExitFailed, beforeAndAfter(t, "--json")...)
	var table struct {
		Slower, Faster, Sizes int
		Beyond                int `json:"slower_than_threshold"`
		Differences           []map[string]string
		Groups                []struct {
			Collective string
			Sizes      []struct {
				Bytes         uint64
				Ratio         float64
				Low, High     float64
				Verdict       string
				Before, After struct {
					Us  float64
					Ran string
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &table); err != nil {
		t.Fatal(err)
	}
	if table.Slower != 2 || table.Beyond != 2 || table.Faster != 1 || table.Sizes != 6 || len(table.Groups) != 1 ||
		len(table.Differences) != 1 {
		t.Fatalf("%+v", table)
	}
	r := table.Groups[0].Sizes[3]
	if r.Bytes != 524288 || r.Verdict != "slower" || r.Before.Ran != "ring/ll128/16" ||
		r.After.Ran != "ring/simple/16" || !(1 < r.Low && r.Low < r.Ratio && r.Ratio < r.High) {
		t.Errorf("%+v", r)
	}
	before, after := logs(t, "before")[0], logs(t, "after")[0]
	if out, _ = tunefit(t, cli.ExitOK, "compare", before, after, "--json"); !strings.Contains(out, `"verdict": "~"`) ||
		strings.Contains(out, "NaN") {
		t.Error(out)
	}
}

func TestCompareWrongCalls(t *testing.T) {
	before, after := logs(t, "before")[0], logs(t, "after")[0]
	policy := testlib.File(t, "p.csv", sample)
	for _, c := range []struct {
		code int
		args []string
		says string
	}{
		{cli.ExitUsage, []string{before}, "1 file given (needed: one before and one after, or before-"},
		{cli.ExitUsage, []string{before, after, after}, "3 files given"},
		{cli.ExitUsage, []string{"--", before, after}, "no file before --"},
		{cli.ExitUsage, []string{before, after, "--"}, "no file after --"},
		{cli.ExitUsage, []string{before, "--", after, "--json"}, "--json: behind -- all is files (flags stand before it)"},
		{cli.ExitUsage, []string{before, after, "--config", "ring"}, `--config "ring": not ALGORITHM/PROTOCOL`},
		{cli.ExitUsage, []string{before, after, "--config", "rign/ll"}, `did you mean "ring"`},
		{cli.ExitUsage, []string{before, after, "--config", "ring/ll/65"}, `channels are "65" (allowed: 1 to 64)`},
		{cli.ExitUsage, []string{before, after, "--threshold", "much"}, `--threshold "much" (allowed: a share as 1% or 0.01`},
		{cli.ExitUsage, []string{before, after, "--threshold", "2"}, "did you mean --threshold 2%"},
		{cli.ExitUsage, []string{before, after, "--threshold", "1"}, "--threshold 1 is 100 % (did you mean --threshold 1%)"},
		{cli.ExitUsage, []string{before, after, "--threshold", "1000.1%"}, "0 to 1000%)"},
		{cli.ExitUsage, []string{before, after, "--threshold", "-1%"}, "0 to 1000%)"},
		{cli.ExitFailed, []string{before, "nothing.log", "--threshold", "1000%"}, "nothing.log: no such file"},
		{cli.ExitFailed, []string{before, policy}, "p.csv is a policy (needed: a sweep, a log"},
		{cli.ExitFailed, []string{before, "nothing.log"}, "nothing.log: no such file"},
		{cli.ExitFailed, []string{before, after, "--restore", before}, "would be overwritten"},
		{cli.ExitFailed, []string{before, after, "--restore", policy}, "is there already (--force overwrites it)"},
		{cli.ExitFailed, []string{before, filepath.Join(testlib.Root, "bench/testdata/launcher_srun.txt")},
			"nothing to compare: no collective, communicator, data type and size is in both"},
		{cli.ExitFailed, []string{before, after, "--config", "tree/simple/4"}, "nothing to compare"},
	} {
		out, said := tunefit(t, c.code, append([]string{"compare"}, c.args...)...)
		if out != "" || !strings.Contains(said, c.says) {
			t.Errorf("%q: %s%s", c.args, out, said)
		}
	}
}

// What ran before is asked for where what runs now is slower, and nowhere else.
func TestRestore(t *testing.T) {
	sweep := func(label string, micros ...float64) string {
		text := sweepHead
		for rep := range 4 {
			for i, us := range micros {
				text += fmt.Sprintf("all_reduce,%d,float,sum,%s,2,16,0,default,%.3f,,,rep%d.log\n", 65536<<i, label,
					us*(1+0.002*float64(rep)), rep)
			}
		}
		return testlib.File(t, "sweep.csv", text)
	}
	old := sweep("tree,ll,8", 20, 30, 40)
	for label, c := range map[string]struct {
		micros    []float64
		row, says string
	}{
		"ring,ll,8": {[]float64{20, 33, 46}, "\nallreduce,131072,262144,tree,ll,-1,2,16,-1,-1\n", "1 row for 2 sizes, not validated"},
		"tree,ll,4": {[]float64{20, 30, 46}, "\nallreduce,262144,262144,tree,ll,8,2,16,-1,-1\n", "1 row for 1 size, not validated"},
		"ring,ll,4": {[]float64{23, 30, 46}, ",tree,ll,-1,2,16,-1,-1\n", "2 rows for 2 sizes, not validated"},
		"tree,ll,8": {[]float64{20, 33, 46}, "", "not restored: 2 sizes, where the same ran before"},
		"ring,ll,2": {[]float64{20, 30, 40}, "", "was not written"},
	} {
		policy := filepath.Join(t.TempDir(), "policy.csv")
		code := cli.ExitFailed
		if label == "ring,ll,2" {
			code = cli.ExitOK
		}
		_, said := tunefit(t, code, "compare", old, sweep(label, c.micros...), "--restore", policy)
		text, err := os.ReadFile(policy)
		if os.IsNotExist(err) != (c.row == "") || !strings.Contains(string(text), c.row) || !strings.Contains(said, c.says) {
			t.Errorf("%s: %v\n%s%s", label, err, text, said)
		}
		if _, _, err := ask.ReadPolicy(testkit.Env.Inputs, policy); c.row != "" && err != nil {
			t.Error(err)
		}
	}
}

// docs/COMMANDS.md shows what is printed.
func TestComparePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testlib.Root, "docs/COMMANDS.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## tunefit compare\n")
	section, _, _ = strings.Cut(section, "\n## ")
	table, _ := tunefit(t, cli.ExitFailed, beforeAndAfter(t)...)
	shown := 0
	for line := range strings.Lines(section) {
		if line, ok := strings.CutPrefix(line, "    "); ok {
			if shown++; !strings.Contains(table, line) {
				t.Errorf("nothing prints %q", line)
			}
		}
	}
	if shown < 3 {
		t.Errorf("%d lines are shown", shown)
	}
}
