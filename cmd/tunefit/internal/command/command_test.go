package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

func TestMain(m *testing.M) { testkit.Main(m, Main, Run) }

// Tests run command lines by these.
var runTest, tunefit, runAlone = testkit.Run, testkit.Tunefit, testkit.RunAlone

const sample = `collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks_per_node,chunk_bytes
allreduce,0,32K,tree,ll,,,8,
allreduce,1000000,4M,ring,simple,12,2,8,64K
allreduce,,,default,,,1,,
`

func TestShow(t *testing.T) {
	file := testlib.File(t, "p.csv", sample)
	got, _ := tunefit(t, cli.ExitOK, "show", file, "--coll", "allreduce", "--comm", "1x8,2x8", "--sizes", "16K-8M")
	want := strings.ReplaceAll(`
collective  comm  size               NCCL 2.30.7's choice  with policy       channels             decided by
allreduce   1x8   16KiB - 32KiB      ring/ll               tree/ll           -                    FILE:2
allreduce   1x8   32769 - 1144836    ring/ll               ring/ll           -                    FILE:4
allreduce   1x8   1144837 - 8MiB     nvls/simple           nvls/simple       -                    FILE:4
allreduce   2x8   16KiB - 32KiB      tree/ll               tree/ll           -                    FILE:2
allreduce   2x8   32769 - 203894     tree/ll               tree/ll           -                    NCCL
allreduce   2x8   203895 - 244815    ring/ll               ring/ll           -                    NCCL
allreduce   2x8   244816 - 999999    tree/ll128            tree/ll128        -                    NCCL
allreduce   2x8   1000000 - 1968826  tree/ll128            ring/simple       12, chunks of 64KiB  FILE:3
allreduce   2x8   1968827 - 4MiB     nvls_tree/simple      ring/simple       12, chunks of 64KiB  FILE:3
allreduce   2x8   4194305 - 8MiB     nvls_tree/simple      nvls_tree/simple  -                    NCCL
`[1:], "FILE", filepath.Base(file))
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The sizes that conditions name are among those that are asked about.
func TestShowConditions(t *testing.T) {
	file := testlib.File(t, "p.csv", "collective,algorithm,protocol,when\n"+
		"allreduce,tree,ll,bytes > 20000 && bytes < 30*KiB\n"+
		"allreduce,ring,simple,ranks_per_node == 8 && bytes_per_rank >= 5000\n"+
		"allreduce,pat,simple,topo.nvswitch || true\n")
	out, _ := tunefit(t, cli.ExitOK, "show", file, "--coll", "allreduce", "--comm", "1x8", "--sizes", "16K-64K")
	var got []string
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		got = append(got,
			strings.Join(f[2:len(f)-4], "")+" "+strings.ReplaceAll(f[len(f)-1], filepath.Base(file), "FILE"))
	}
	want := []string{"size by", "16KiB-20000 NCCL", "20001-30719 FILE:2", "30KiB-39999 NCCL", "40000-64KiB FILE:3"}
	if len(got) != len(want) {
		t.Fatalf("%q in\n%s", got, out)
	}
	for i := 1; i < len(want); i++ {
		if !strings.HasPrefix(got[i], strings.Fields(want[i])[0]) ||
			!strings.HasSuffix(got[i], strings.Fields(want[i])[1]) {
			t.Errorf("%q, want %q in\n%s", got[i], want[i], out)
		}
	}
}

func TestShowJSON(t *testing.T) {
	file := testlib.File(t, "p.csv", sample)
	out, _ := tunefit(t, cli.ExitOK, "show", file, "--coll", "AllReduce", "--comm", "2x8", "--sizes",
		"64K,2M", "--json")
	var got []ask.Outcome
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if len(got) != 2 || got[0].Row != 0 || got[0].PipeOps != 1 || got[0].Policy.Cell != got[0].NCCL.Cell {
		t.Errorf("%+v", got)
	}
	ring := nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoSimple}, Channels: 12}
	want := got[1] // what follows is not of the policy
	want.Call = nccl.Call{Coll: nccl.CollAllReduce, Bytes: 2 << 20}
	want.Comm = policy.Comm{Comm: nccl.Comm{Nodes: 2, Ranks: 16}, NVLDomains: 2}
	want.Release, want.Known, want.CostModel = "2.30.7", "cost model", "NCCL 2.30.7's estimates for HGX H100"
	want.Policy, want.Chunk, want.File, want.Row, want.PipeOps = ring, 65536, file, 3, 1
	if !reflect.DeepEqual(got[1], want) {
		t.Errorf("got %+v\nwant %+v", got[1], want)
	}
}

func TestChannelsText(t *testing.T) {
	for want, c := range map[string]struct {
		channels int
		chunk    int64
	}{"-": {}, "1": {1, 0}, "chunks of 512": {0, 512}, "64, chunks of 64KiB": {64, 64 << 10}} {
		var o ask.Outcome
		if o.Policy.Channels, o.Chunk = c.channels, c.chunk; channelsText(o) != want {
			t.Errorf("%q, want %q", channelsText(o), want)
		}
	}
}

// The communicators shown are those that the rows are for.
func TestShownCommunicators(t *testing.T) {
	for _, c := range []struct{ rows, want string }{
		{"allreduce,0,inf,ring,simple,-1,-1,-1\n", "1x8 2x8"},
		{"allreduce,0,inf,ring,simple,-1,3,24\nallreduce,0,inf,ring,simple,-1,1,4\n", "1x4 3x8"},
		{"allreduce,0,inf,ring,simple,-1,4,-1\nallreduce,0,inf,ring,simple,-1,-1,64\n", "4x8 8x8"},
		{"collective,algorithm,when\nallreduce,ring,nodes > 2 || ranks == 32\n", "2x8 4x8"},
	} {
		out, _ := tunefit(t, cli.ExitOK, "show", testlib.File(t, "p.csv", c.rows), "--coll", "allreduce",
			"--sizes", "1M")
		var got []string
		for _, line := range strings.Split(strings.TrimSpace(out), "\n")[1:] {
			got = append(got, strings.Fields(line)[1])
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q: %q, want %q", c.rows, got, c.want)
		}
	}
}

// Costs of a communicator that the tuning does not have are named as such.
func TestStandInIsSaid(t *testing.T) {
	_, said := tunefit(t, cli.ExitOK, "show", testlib.File(t, "p.csv", sample), "--coll", "allreduce", "--comm", "7x4",
		"--sizes", "1M")
	if said != "note: NCCL's default for 7x4 on HGX H100 is not known; what is available is taken from 7x8 (name its GPUs of "+
		"a node, as --gpus 0-3)\n" {
		t.Errorf("%q", said)
	}
}

// What NCCL chooses on another communicator is not shown as its choice on this one.
func TestNotKnownInJSON(t *testing.T) {
	out, _ := tunefit(t, cli.ExitOK, "show", testlib.File(t, "p.csv", sample), "--coll", "allreduce", "--comm",
		"7x4,7x8", "--sizes", "1M", "--json")
	var got []struct {
		By   string       `json:"nccl_by"`
		NCCL *nccl.Config `json:"nccl"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != 2 || got[0].By != "not known" ||
		got[0].NCCL != nil || got[1].NCCL == nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestDiff(t *testing.T) {
	old := testlib.File(t, "old.csv", sample)
	changed := testlib.File(t, "new.csv", strings.Replace(strings.Replace(sample, "32K", "32769", 1),
		"12,2", "16,2", 1))
	if out, _ := tunefit(t, cli.ExitOK, "diff", old, old); out != "no difference\n" {
		t.Errorf("%q", out)
	}
	if out, _ := tunefit(t, cli.ExitOK, "diff", old, old, "--json"); out != "[]\n" {
		t.Errorf("%q", out)
	}
	out, _ := tunefit(t, cli.ExitFailed, "diff", old, changed, "--coll", "allreduce", "--comm", "1x8,2x8")
	want := strings.NewReplacer("OLD", old, "NEW", changed).Replace(`
collective comm size old decided by new decided by
allreduce 1x8 32769 ring/ll OLD:4 tree/ll NEW:2
allreduce 2x8 1000000 - 4MiB ring/simple 12 ch, chunks of 64KiB OLD:3 ring/simple 16 ch, chunks of 64KiB NEW:3
`[1:])
	if squeezed := regexp.MustCompile(` +`).ReplaceAllString(out, " "); squeezed != want {
		t.Errorf("got\n%s\nwant\n%s", squeezed, want)
	}
	out, _ = tunefit(t, cli.ExitFailed, "diff", old, changed, "--json", "--coll", "allreduce", "--comm", "1x8")
	var got []difference
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != 1 || got[0].Min != 32769 ||
		got[0].Max != 32769 || got[0].New.Row != 2 {
		t.Errorf("%v: %s", err, out)
	}
}

// A difference that only certain calls see is found; one that cannot be seen on
// the machine that is assumed is at least mentioned.
func TestDiffLooksEverywhere(t *testing.T) {
	pipe := func(algo string) string {
		return testlib.File(t, algo+".csv", "allreduce,1500,2000,"+algo+",simple,-1,1,8,4,1\n")
	}
	out, _ := tunefit(t, cli.ExitFailed, "diff", pipe("ring"), pipe("tree"))
	if !strings.Contains(out, "1500 - 2000, pipe_ops 4, reg_buff 1") {
		t.Errorf("%s", out)
	}
	collNet := testlib.File(t, "c.csv", "allreduce,0,inf,collnet_chain,simple,-1,-1,-1\n")
	pat := testlib.File(t, "p.csv", "allreduce,0,inf,pat,simple,-1,-1,-1\n")
	if out, _ := tunefit(t, cli.ExitOK, "diff", collNet, pat); !strings.HasPrefix(out,
		"no difference\nwhere they were compared: their rows do not mean the same (versions ") {
		t.Errorf("%q", out)
	}
}

func TestBadCommandLines(t *testing.T) {
	file := testlib.File(t, "p.csv", sample)
	bad := testlib.File(t, "bad.csv", "allreduce,0,inf,rign,simple,-1,-1,-1\n")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"shwo"}, cli.ExitUsage, `unknown command "shwo"`},
		{[]string{"help", "chek"}, cli.ExitUsage, `unknown command "chek" (did you mean "check"`},
		{[]string{"help", "topo", "graps"}, cli.ExitUsage, `unknown command "graps" (did you mean "graphs"`},
		{[]string{"show"}, cli.ExitUsage, "nothing to show (needed: a policy file, --model, or both)"},
		{[]string{"show", file, "--size", "1"}, cli.ExitUsage, "unknown flag: --size"},
		{[]string{"show", file, "--sizes", "1MB"}, cli.ExitUsage, `--sizes: "1MB" is ambiguous`},
		{[]string{"show", file, "--sizes", "4M-1M"}, cli.ExitUsage,
			"--sizes: 4M-1M: a range runs from its smaller size to its larger, as 1MiB-4MiB"},
		{[]string{"show", file, "--sizes=-1"}, cli.ExitUsage, `--sizes: -1: a range's first size: ""`},
		{[]string{"show", file, "--sizes", "0-1K"}, cli.ExitUsage, "--sizes: 0-1K: a range runs from 1 or more"},
		{[]string{"sweep", "-o", "x", "--prove=x"}, cli.ExitUsage,
			"--prove=x: not a number of runs (allowed: 1 to 100)\n"},
		{[]string{"sweep", "-o", "x", "--prove=0"}, cli.ExitUsage, "not a number of runs (allowed: 1 to 100)\n"},
		{[]string{"sweep", "-o", "x", "--prove=101"}, cli.ExitUsage, "not a number of runs (allowed: 1 to 100)\n"},
		{[]string{"sweep", "--init", file}, cli.ExitUsage, "--init takes no plan file"},
		{[]string{"sweep", "-o", t.TempDir(), "--coll", "reduce", "--comm", "1x8", "--sizes", "0,1M"}, cli.ExitUsage,
			"--sizes 0,1M (allowed: 1 or more)"},
		{[]string{"sweep", "-o", t.TempDir(), "--coll", "allreduce", "--comm", "1x8", "--nccl", "2.28.9"}, cli.ExitUsage,
			"--nccl needs --topo"},
		{[]string{"push", file, "--timeout", "5"}, cli.ExitUsage,
			`--timeout=5: not a duration (allowed: 0 and more, as 30s, 5m, 1h30m)`},
		{[]string{"show", file, "--coll", "allredcue"}, cli.ExitUsage,
			`unknown collective "allredcue" (did you mean "allreduce"; allowed: `},
		{[]string{"show", file, "--comm", "8"}, cli.ExitUsage, `--comm "8": not NODESxRANKS_PER_NODE`},
		{[]string{"show", file + ".absent"}, cli.ExitFailed, "no such file or directory"},
		{[]string{"show", "/dev/null"}, cli.ExitFailed, "/dev/null: not a regular file"},
		{[]string{"show", testlib.File(t, "empty.csv", "# nothing\n")}, cli.ExitFailed, "empty.csv has no rows"},
		{[]string{"diff", file, bad}, cli.ExitFailed, "bad.csv:1:4: unknown algorithm"},
		{[]string{"show", bad}, cli.ExitFailed, "bad.csv:1:4: unknown algorithm"},
		{[]string{"diff", file}, cli.ExitUsage, "1 arguments given (needed: the old and the new policy file)"},
	} {
		out, said := tunefit(t, c.code, c.args...)
		if out != "" || !strings.Contains(said, c.says) {
			t.Errorf("%q printed %q and said %q, want %q", c.args, out, said, c.says)
		}
	}
}

// What a file holds, or is called, does not steer the terminal, whichever command reads
// it out.
func TestControlCharactersAreEscaped(t *testing.T) {
	const red, clear = "\x1b[31m", "\u009b2J"
	file := testlib.File(t, "p"+red+".csv", "collective,min_bytes,max_bytes,algorithm,protocol,comment\n"+
		"allreduce,0,64K,ring,simple,\""+red+clear+"\"\nallreduce,0,inf,tree,simple,\n")
	bad := testlib.File(t, "b"+red+".csv", "allreduce"+red+",0,inf,ring,simple,-1,-1,-1\n")
	other := testlib.File(t, "other.csv", "allreduce,0,inf,ring,simple,1,-1,-1\n")
	for _, args := range [][]string{
		{"show", file, "--coll", "allreduce", "--comm", "2x8"},
		{"show", bad},
		{"explain", "allreduce", "8K", "--comm", "2x8", "--policy", file},
		{"explain", "allreduce", "8K", "--comm", "2x8", "--policy", file, "--json"},
		{"check", file},
		{"check", bad},
		{"check", bad, "--json"},
		{"diff", file, other},
		{"diff", file, bad},
		{"push", bad, "--to", other},
		{"check", bad, "--measured", bad},
		{"check", bad, "--tests", bad},
		{"nosuch" + red},
	} {
		var out, said strings.Builder
		runTest("", args, &out, &said)
		if text := out.String() + said.String(); strings.ContainsAny(text, "\x1b\u009b") {
			t.Errorf("%q: %q", args, text)
		} else if text == "" {
			t.Errorf("%q says nothing", args)
		}
	}
}

// What programs may read, too, does not steer a terminal either.
func TestDataIsEscaped(t *testing.T) {
	const name = "a\x1b[2J\u202e"
	machine, err := os.ReadFile(filepath.Join(testlib.Root, "configs/topo/dgx-h100.xml"))
	if err != nil {
		t.Fatal(err)
	}
	topology := testlib.File(t, "system.xml", strings.ReplaceAll(string(machine), `name="mlx5_0"`, `name="`+name+`"`))
	rendezvous := filepath.Join(t.TempDir(), name)
	if err := os.Rename(testlib.Records(t, map[string]string{
		"c/0000000000000007-2/init":   `{"content":"aaaa","meaning":"bbbb"}`,
		"c/0000000000000007-2/slot/0": "x n1 11 1 1",
	}), rendezvous); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"topo", "--dump", topology},
		{"topo", "--json", topology},
		{"status", "--prometheus", "--rendezvous", rendezvous},
		{"status", "--json", "--rendezvous", rendezvous},
		{"status", "--rendezvous", rendezvous},
		{"sweep", "--dry-run", "--coll", "allreduce", "--comm", "1x2", "--perf-dir", name, "--plugin", topology,
			"-o", filepath.Join(t.TempDir(), "sweep")},
	} {
		_, out, said := runAlone(args...)
		if strings.ContainsAny(out+said, "\x1b\u202e") || !strings.Contains(out, `a\u001b[2J\u202e`) &&
			!strings.Contains(out, `a\\u001b[2J\\u202e`) {
			t.Errorf("%s: %q", args[:2], out+said)
		}
	}
}

// What files and records hold makes up no line, and no cell of a table.
func TestForeignTextStaysInItsPlace(t *testing.T) {
	const name = "a\x1b[2J\nforged\tcell\u202e"
	text, err := json.Marshal(name)
	if err != nil {
		t.Fatal(err)
	}
	cells := strings.NewReplacer(",ring,,,", ",ring,ll,8,", ",host0,", `,"`+name+`",`, ",Example GPU,", `,"`+name+`",`)
	sweep := testlib.File(t, "sweep.csv", cells.Replace(ringSweep))
	model := filepath.Join(t.TempDir(), "model.json")
	policy := testlib.File(t, "p.csv", "collective,min_bytes,max_bytes,algorithm,protocol,comment\n"+
		"allreduce,0,64K,ring,simple,\""+name+"\"\nallreduce,0,inf,tree,\""+name+"\",\n")
	good := testlib.File(t, "good.csv", "collective,min_bytes,max_bytes,algorithm,protocol,comment\n"+
		"allreduce,0,64K,ring,simple,\""+name+"\"\n")
	tests := testlib.File(t, "p_test.yaml",
		"policy: "+good+"\ntests:\n- {name: "+string(text)+", collective: allreduce, "+
			"nodes: 2, ranks: 16, size: 4K, expect: {comment: other, algorithm: tree}}\n")
	machine, err := os.ReadFile(filepath.Join(testlib.Root, "configs/topo/dgx-h100.xml"))
	if err != nil {
		t.Fatal(err)
	}
	topology := testlib.File(t, "system.xml", strings.ReplaceAll(string(machine), `name="mlx5_0"`, `name="`+name+`"`))
	found := testlib.File(t, "comparison-1.json",
		`{"a":{"name":`+string(text)+`},"b":{"name":"NCCL's default"},"nodes":1,"ranks":8,"pairs":2}`)
	learning := t.TempDir()
	evidence(t, learning, "a.json", func(e *trial.Evidence) { e.Name = name })
	job := testlib.File(t, "job.csv", "# tunefit job profile 1\n# "+name+"\n")
	rendezvous := testlib.Records(t, map[string]string{
		"c/0000000000000007-2/init":   `{"content":"aaaa","meaning":` + string(text) + `}`,
		"c/0000000000000007-2/slot/0": "x n\x1b[2J1 11 1 1",
	})
	directory := t.TempDir()
	if err := os.WriteFile(filepath.Join(directory, name+".csv"), []byte("allreduce,0,inf,ring,simple,1,-1,-1\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		shown bool // the name is in what the command prints
		args  []string
	}{
		{true, []string{"fit", sweep, "-o", model}},
		{true, []string{"check", model, "--measured", sweep}},
		{false, []string{"sweep", "--dry-run", "-o", t.TempDir(), "--plugin", sweep, "--from", sweep, "--comm", "1x2"}},
		{false, []string{"show", "--model", model, "--coll", "allreduce", "--comm", "1x2"}},
		{true, []string{"show", policy}},
		{true, []string{"check", policy}},
		{true, []string{"check", good, "--tests", tests}},
		{true, []string{"compare", filepath.Dir(found)}},
		{true, []string{"learn", learning}},
		{false, []string{"profile", job}},
		{true, []string{"import", directory}},
		{true, []string{"topo", topology}},
		{true, []string{"topo", "explain", "gpu0", "nosuch", "--topo", topology}},
		{false, []string{"status", "--rendezvous", rendezvous}},
	} {
		_, out, said := runAlone(c.args...)
		text := out + said
		if strings.ContainsAny(text, "\x1b\u202e") || strings.Contains(text, "\tcell") ||
			strings.Contains(text, "\nforged") {
			t.Errorf("%s: %q", c.args[:2], text)
		}
		shown := strings.Contains(text, `a\u001b[2J\u000aforged\u0009cell\u202e`) ||
			strings.Contains(text, `a\x1b[2J\nforged\tcell\u202e`)
		if shown != c.shown {
			t.Errorf("%s: shown %v: %s", c.args[:2], shown, text)
		}
	}
}

// A command that is gone says in one line what has taken its place, whatever follows it. What only looks like one does
// not.
func TestGoneCommands(t *testing.T) {
	_, help, _ := runAlone("--help")
	for name, now := range removedCommands {
		words := strings.Fields(name)
		if len(words) == 1 && slices.Contains(subcommands(help), name) {
			t.Errorf("%s is a command", name)
		}
		for _, args := range [][]string{words, append(words[:len(words):len(words)], "x.csv", "--json", "-o"),
			append([]string{"help"}, words...)} {
			if out, said := tunefit(t, cli.ExitUsage, args...); out != "" || said != "tunefit: "+now+"\n" {
				t.Errorf("%q: %s%s", args, out, said)
			}
		}
	}
	for _, args := range [][]string{{"evaluate"}, {"learn", "merged"}} {
		if _, _, said := runAlone(args...); strings.Contains(said, "gone") || strings.Contains(said, "is now") {
			t.Errorf("%q: %s", args, said)
		}
	}
}

// A command of an earlier release says what has taken its place, whatever its options were.
func TestCommandsThatAreGone(t *testing.T) {
	for name, now := range removedCommands {
		for _, args := range [][]string{{}, {"--verify", "sweep.csv"}, {"--help"}} {
			args = append(strings.Fields(name), args...)
			if _, errs := tunefit(t, cli.ExitUsage, args...); !strings.Contains(errs, "tunefit: "+now+"\n") {
				t.Errorf("tunefit %q: %s", args, errs)
			}
		}
		if _, errs := tunefit(t, cli.ExitUsage, append([]string{"help"}, strings.Fields(name)...)...); !strings.Contains(errs,
			now) {
			t.Errorf("tunefit help %s: %s", name, errs)
		}
	}
}
