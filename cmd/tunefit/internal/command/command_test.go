package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
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

// The communicators shown are those that the rows are for.
func TestShownCommunicators(t *testing.T) {
	for _, c := range []struct{ rows, want string }{
		{"allreduce,0,inf,ring,simple,-1,-1,-1\n", "1x8 2x8"},
		{"allreduce,0,inf,ring,simple,-1,1,1\nallreduce,0,inf,ring,simple,-1,2,4\n", "2x2"}, // a tuner hears of no single rank
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
