package command

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// runWith is runAlone with something on the standard input.
func runWith(stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = runTest(stdin, args, &out, &errs)
	return code, out.String(), errs.String()
}

// Who names the wrong file or word reads what it is and what to do.
func TestWrongFiles(t *testing.T) {
	rows := testlib.File(t, "p.csv", sample)
	sweep := testlib.File(t, "sweep.csv", ringSweep)
	log := testlib.File(t, "run.txt", ringLog)
	semicolons := testlib.File(t, "semi.csv", strings.ReplaceAll(ringSweep, ",", ";"))
	tabs := testlib.File(t, "tabs.csv", strings.ReplaceAll(sample, ",", "\t"))
	decimal := testlib.File(t, "decimal.csv", strings.ReplaceAll(strings.ReplaceAll(ringSweep, ",", ";"),
		"41.5", "41,5"))
	xml := testlib.File(t, "graphs.xml", "<graphs version=\"1\"/>\n")
	packed := testlib.File(t, "sweep.zst", "\x28\xb5\x2f\xfd\x04\x00")
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	for _, c := range []struct {
		code int
		args []string
		want []string
	}{
		{cli.ExitFailed, []string{"show", sweep}, []string{"sweep.csv is a sweep: measurements (needed: a policy)",
			"tunefit fit " + sweep}},
		{cli.ExitFailed, []string{"check", sweep}, []string{"sweep.csv is a sweep", "tunefit fit " + sweep}},
		{cli.ExitFailed, []string{"push", sweep, "--to", out}, []string{"sweep.csv is a sweep", "tunefit fit " + sweep,
			"nothing was written to " + out}},
		{cli.ExitFailed, []string{"show", log}, []string{"run.txt is a log of measurements", "tunefit import " + log}},
		{cli.ExitFailed, []string{"show", "--model", sweep},
			[]string{"sweep.csv is a sweep", "(needed: a cost model)"}},
		{cli.ExitFailed, []string{"fit", rows},
			[]string{"p.csv is a policy (needed: a sweep, a log of measurements or the JSON output of nccl-tests)",
				"tunefit show " + rows}},
		{cli.ExitFailed, []string{"import", rows}, []string{"p.csv is a policy", "tunefit show " + rows}},
		{cli.ExitFailed, []string{"diff", rows, sweep}, []string{"sweep.csv is a sweep"}},
		{cli.ExitFailed, []string{"fit", semicolons},
			[]string{"semi.csv is a sweep whose fields are separated by semicolons (needed: commas)\n"}},
		{cli.ExitFailed, []string{"show", tabs}, []string{"tabs.csv is a policy whose fields are separated by tabs"}},
		{cli.ExitFailed, []string{"import", decimal}, []string{"separated by semicolons"}},
		{cli.ExitFailed, []string{"fit", packed}, []string{"sweep.zst is packed in a way that is not read here"}},
		{cli.ExitFailed, []string{"show", dir},
			[]string{dir + " is a directory (needed: a file; tunefit import " + dir}},
		{cli.ExitFailed, []string{"fit", dir}, []string{dir + " is a directory"}},
		{cli.ExitFailed, []string{"import", dir}, []string{"there is no file in the directory " + dir}},
		{cli.ExitFailed, []string{"fit", "nothing*.csv"}, []string{"nothing*.csv: no file has such a name (the shell"}},
		{cli.ExitFailed, []string{"show", "nothing?.csv"}, []string{"no file has such a name"}},
		{cli.ExitUsage, []string{"explain", "alltoall", "1M", "--comm", "1x8", "--policy", rows},
			[]string{"alltoall: NCCL asks no tuner about it", "allreduce"}},
		{cli.ExitUsage, []string{"show", rows, "--coll", "SendRecv"}, []string{"NCCL asks no tuner about it"}},
		{cli.ExitUsage, []string{"explain", "allreduce", "1M", "--comm", "16", "--policy", rows},
			[]string{`--comm "16": not NODESxRANKS_PER_NODE`}},
		{cli.ExitUsage, []string{"explain", "allreduce", "-5", "--comm", "1x8", "--policy", rows},
			[]string{"-5: no size", "4096, 64K"}},
		{cli.ExitUsage, []string{"show", "-json", rows}, []string{"did you mean --json"}},
		{cli.ExitUsage, []string{"show", rows, "--jsno"}, []string{"unknown flag: --jsno", "did you mean --json",
			"\nTry: tunefit show --help\n"}},
		{cli.ExitUsage, []string{"show", rows, "-jsno"}, []string{"in -jsno (did you mean --json; allowed: --coll, --comm,"}},
		{cli.ExitUsage, []string{"show", "-z"}, []string{"'z' in -z (allowed: --coll, ", "--json,", ", --topo"}},
		{cli.ExitUsage, []string{"-V"}, []string{"'V' in -V (did you mean --version; allowed: --help, --version)"}},
		{cli.ExitUsage, []string{"sweep", "--repetitions", "99999999999999999999"},
			[]string{"tunefit: --repetitions=99999999999999999999: wrong value (allowed: a whole number, as 8)\n"}},
		{cli.ExitUsage, []string{"show", "--json=x"}, []string{"--json=x: wrong value (allowed: true, false)"}},
		{cli.ExitUsage, []string{"sweep", "--rep=2"}, []string{"did you mean --repetitions",
			"\nTry: tunefit sweep --help\n"}},
		{cli.ExitUsage, []string{"topo", "graphs", "-json"}, []string{"\nTry: tunefit topo graphs --help\n"}},
		{cli.ExitFailed, []string{"topo", xml}, []string{"graphs.xml is XML, but no topology", "NCCL_TOPO_DUMP_FILE",
			"tunefit topo --dump"}},
		{cli.ExitFailed, []string{"show", rows, "--topo", rows}, []string{"p.csv is a policy (needed: a topology)"}},
		{cli.ExitUsage, []string{"shwo"}, []string{`unknown command "shwo" (did you mean "show"`,
			"\nTry: tunefit --help\n"}},
		{cli.ExitUsage, []string{"fti"}, []string{`unknown command "fti" (did you mean "fit"; `}},
		{cli.ExitUsage, []string{"topo", "graps"}, []string{`did you mean "graphs"`}},
		{cli.ExitUsage, []string{"fit", sweep, "-o", "-"}, []string{"- as an output is no file"}},
	} {
		code, stdout, said := runAlone(c.args...)
		if code != c.code || stdout != "" {
			t.Errorf("tunefit %q: exit code %d, want %d; printed %q", c.args, code, c.code, stdout)
		}
		for _, want := range c.want {
			if !strings.Contains(said, want) {
				t.Errorf("tunefit %q says\n%swant %q", c.args, said, want)
			}
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Errorf("something was written")
	}
}

// What gzip has compressed and what comes from the standard input is read as a file is.
func TestPackedAndStandardInput(t *testing.T) {
	const xml = "../../../../configs/topo/dgx-a100.xml"
	topology, err := os.ReadFile(xml)
	if err != nil {
		t.Fatal(err)
	}
	tests := "tests:\n  - {name: a, collective: allreduce, nodes: 1, ranks: 8, size: 1K, expect: {algorithm: tree}}\n"
	model := filepath.Join(t.TempDir(), "model.json")
	tunefit(t, cli.ExitOK, "fit", smallSweep, "-o", model)
	fitted, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	sweep, err := os.ReadFile(smallSweep)
	if err != nil {
		t.Fatal(err)
	}
	short := []string{"--coll", "allreduce", "--comm", "1x8", "--sizes", "1K,4M"}
	for name, c := range map[string]struct {
		text string
		args []string // FILE is where the text is
	}{
		"show":       {sample, append([]string{"show", "FILE"}, short...)},
		"show model": {string(fitted), append([]string{"show", "--model", "FILE"}, short...)},
		"show topo": {string(topology), append([]string{"show", testlib.File(t, "p.csv", sample), "--topo", "FILE"},
			short...)},
		"explain":     {sample, []string{"explain", "allreduce", "1M", "--comm", "1x8", "--policy", "FILE"}},
		"diff":        {sample, append([]string{"diff", "FILE", testlib.File(t, "p.csv", sample)}, short...)},
		"check":       {sample, []string{"check", "FILE", "--json"}},
		"topo":        {string(topology), []string{"topo", "FILE"}},
		"fit":         {string(sweep), []string{"fit", "FILE"}},
		"measured":    {string(fitted), []string{"check", "FILE", "--measured", smallSweep}},
		"measured by": {string(sweep), []string{"check", model, "--measured", "FILE"}},
		"sweep": {string(sweep), []string{"sweep", "--dry-run", "-o", "nowhere", "--plugin", "lib.so", "--launch",
			"srun -N {nodes} {command}", "--from", "FILE"}},
		"import": {ringLog, []string{"import", "FILE"}},
		"tests":  {tests, []string{"check", testlib.File(t, "p.csv", sample), "--tests", "FILE"}},
	} {
		t.Run(name, func(t *testing.T) {
			with := func(file string) []string {
				args := append([]string{}, c.args...)
				for i := range args {
					args[i] = strings.ReplaceAll(args[i], "FILE", file)
				}
				return args
			}
			plain, packed := testlib.File(t, "file", c.text), testlib.File(t, "file.gz", testlib.Zipped(t, c.text))
			wantCode, want, _ := runAlone(with(plain)...)
			for what, got := range map[string]func() (int, string, string){
				plain:    func() (int, string, string) { return runWith(c.text, with("-")...) },
				packed:   func() (int, string, string) { return runAlone(with(packed)...) },
				"packed": func() (int, string, string) { return runWith(testlib.Zipped(t, c.text), with("-")...) },
			} {
				code, out, said := got()
				clean := strings.NewReplacer(plain, "X", packed, "X", "file.gz", "X", "file", "X", "stdin", "X", " -:",
					" X:", "policy -", "policy X", `"-"`, `"X"`)
				squeeze := func(s string) string { return strings.Join(strings.Fields(clean.Replace(s)), " ") }
				if code != wantCode || squeeze(out) != squeeze(want) {
					t.Errorf("%s: exit code %d, want %d\n%s%s\nwant\n%s", what, code, wantCode, out, said, want)
				}
			}
		})
	}
	if code, _, said := runWith(string(sweep), "fit", "-", "-"); code != cli.ExitFailed ||
		!strings.Contains(said, "can be read once only") {
		t.Errorf("exit code %d, %s", code, said)
	}
}

// What is wrong with a file is said in the user's words, not in Go's.
func TestUnreadableInput(t *testing.T) {
	packed := testlib.Zipped(t, ringLog)
	link := filepath.Join(t.TempDir(), "link.csv")
	if err := os.Symlink("gone.csv", link); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		testlib.File(t, "cut.gz", packed[:len(packed)/2]): "cut.gz: the compressed file is cut off",
		link: "link.csv is a link to gone.csv, which cannot be read: no such file",
	} {
		if code, _, said := runAlone("import", file); code != cli.ExitFailed || !strings.Contains(said, want) {
			t.Errorf("exit code %d, %s; want %s", code, said, want)
		}
	}
}

// An input is never overwritten, whatever it is called and whatever is forced.
func TestOutputIsNoInput(t *testing.T) {
	dir := t.TempDir()
	sweep, err := os.ReadFile(smallSweep)
	if err != nil {
		t.Fatal(err)
	}
	name := func(base string) string { return filepath.Join(dir, base) }
	if err := os.WriteFile(name("sweep.csv"), sweep, 0o644); err != nil {
		t.Fatal(err)
	}
	for link, make := range map[string]func(string, string) error{"soft.csv": os.Symlink, "hard.csv": os.Link} {
		if err := make(name("sweep.csv"), name(link)); err != nil {
			t.Fatal(err)
		}
	}
	other := dir + "/./sweep.csv"
	for _, args := range [][]string{
		{"import", name("sweep.csv"), "-o", other}, {"import", name("sweep.csv"), "-o", name("soft.csv")},
		{"import", name("sweep.csv"), "-o", name("hard.csv")},
		{"import", name("soft.csv"), "-o", name("sweep.csv")}, {"import", dir, "-o", name("sweep.csv")},
		{"fit", name("sweep.csv"), "-o", name("sweep.csv")}, {"fit", name("sweep.csv"), "--csv", name("soft.csv")},
		{"fit", smallSweep, name("sweep.csv"), "--report", name("hard.csv")},
		{"fit", smallSweep, "--topo", name("sweep.csv"), "--csv", other},
	} {
		code, _, said := runAlone(append(args, "--force")...)
		if now, err := os.ReadFile(name("sweep.csv")); code != cli.ExitFailed ||
			!strings.Contains(said, "would be overwritten") || err != nil || !bytes.Equal(now, sweep) {
			t.Errorf("tunefit %q: exit code %d, %s", args, code, said)
		}
	}
}
