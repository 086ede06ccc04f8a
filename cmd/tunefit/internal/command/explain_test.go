package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

const explainedRows = `collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks_per_node,chunk_bytes,when,comment
allgather,,,ring,ll,,,,,,another collective
allreduce,,32K,tree,ll,,,8,,,too small
allreduce,,1M,tree,ll,,,8,,,nearly
allreduce,,,ring,ll,,2,4,,,another communicator
allreduce,,,tree,simple,,,,,bytes_per_rank > 4*MiB,a condition
allreduce,,,pat,simple,,,,,,not offered
allreduce,1M,8M,ring,simple,12,,8,64K,nodes == 4,this one
allreduce,,,tree,ll,,,,,,too late
`

func TestExplain(t *testing.T) {
	file := testlib.File(t, "p.csv", explainedRows)
	out, errs := tunefit(t, cli.ExitOK, "explain", "allreduce", "8M", "--comm", "4x8", "--policy", file)
	want := strings.ReplaceAll(`allreduce of 8MiB on 4 nodes, 32 ranks

policy FILE, 8 rows
  p.csv:6  its condition does not hold: bytes_per_rank > 4*MiB, with bytes_per_rank = 262144
  p.csv:7  asks for pat/simple, which is not available here
  p.csv:4  is for 0 - 1MiB, not 8MiB
  p.csv:3  is for 0 - 32KiB, not 8MiB
  p.csv:5  is for nodes 2, not 4; ranks_per_node 4, not 8
  1 row for other collectives
  p.csv:8  decides: ring/simple 12 ch, chunks of 64KiB
    allreduce,1M,8M,ring,simple,12,,8,64K,nodes == 4,this one
    its condition holds: nodes = 4
  later rows that match, too, and come too late: p.csv:9

NCCL 2.30.7's estimates for HGX H100
  nvls_tree/simple  153.3 us  NCCL's default, with 16 channels
`, "FILE", file)
	if !strings.HasPrefix(out, want) || strings.Count(errs, "\n") != 1 ||
		!strings.HasPrefix(errs, "note: NCCL's default is taken from NCCL 2.30.7's estimates for HGX H100; ") {
		t.Errorf("%s%s", out, errs)
	}
	end := fmt.Sprintf(`
decision: ring/simple 12 ch, chunks of 64KiB instead of nvls_tree/simple, by %s:8
`, file)
	if !strings.HasSuffix(out, end) {
		t.Errorf("%s", out)
	}

	t.Setenv(tuner.EnvConfigFile, file) // as a job has it
	again, _ := tunefit(t, cli.ExitOK, "explain", "AllReduce", "8M", "--comm", "4x8")
	if again != out {
		t.Errorf("with the environment of a job:\n%s", again)
	}
	all, _ := tunefit(t, cli.ExitOK, "explain", "allreduce", "8M", "--comm", "4x8", "--all")
	at := 0
	for _, row := range []string{":2  is for allgather", ":3  ", ":4  ", ":5  ", ":6  ", ":7  ", ":8  decides",
		":9  matches"} {
		i := strings.Index(all[at:], "  p.csv"+row)
		if i < 0 {
			t.Fatalf("%s is missing or out of order in\n%s", row, all)
		}
		at += i
	}
}

// Ten thousand rows stay readable.
func TestExplainManyRows(t *testing.T) {
	var rows strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&rows, "%s,%d,%d,ring,ll,4,%d,-1\n", []string{"allreduce", "allgather"}[i%2], i*1000,
			i*1000+999, 1+i%4)
	}
	file := testlib.File(t, "many.csv", rows.String())
	out, _ := tunefit(t, cli.ExitOK, "explain", "allreduce", "5000000", "--comm", "1x8", "--policy", file)
	for _, want := range []string{
		"\n  many.csv:4997  is for 4996000 - 4996999, not 5000000\n",
		"\n  and 2492 more rows (--all shows each)\n", "\n  2500 rows for other collectives\n",
		"\n  many.csv:5001  decides: ring/ll 4 ch\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if lines := strings.Count(out, "\n"); lines > 40 {
		t.Errorf("%d lines", lines)
	}
	for line := range strings.Lines(out) {
		if len(line) > 100 && !strings.Contains(line, file) {
			t.Errorf("a line of %d characters: %s", len(line), line)
		}
	}
}

// With a model: what it expects, what it chose, why it abstains and what to do.
func TestExplainModel(t *testing.T) {
	model := filepath.Join(t.TempDir(), "model.json")
	tunefit(t, cli.ExitOK, "fit", smallSweep, "-o", model)
	path := func(args ...string) (j explanation) {
		t.Helper()
		out, errs := tunefit(t, cli.ExitOK, append([]string{"explain", "--model", model, "--json"}, args...)...)
		if err := json.Unmarshal([]byte(out), &j); err != nil || j.Model == nil {
			t.Fatalf("%v: %+v\n%s", err, j, errs)
		}
		return j
	}
	shown, _ := tunefit(t, cli.ExitOK, "show", "--model", model, "--coll", "allreduce", "--comm", "2x8", "--json")
	var all []ask.Outcome
	if err := json.Unmarshal([]byte(shown), &all); err != nil {
		t.Fatal(err)
	}
	decided := 0
	for _, o := range all {
		j := path("allreduce", fmt.Sprint(o.Bytes), "--comm", "2x8")
		if j.Decision.Policy != o.Policy || j.Decision.File != o.File {
			t.Errorf("%d bytes: explains %+v, shows %+v", o.Bytes, j.Decision, o)
		}
		if (j.Model.Abstains == "") != (o.File == model) || (o.Expected != nil) != (o.File == model) {
			t.Errorf("%d bytes: %+v by %q", o.Bytes, j.Model, o.File)
		}
		if o.Expected == nil {
			continue
		}
		decided++
		first := j.Model.Candidates[0]
		// At a verified size the winner decides, without a bar: no gain is needed.
		if j.Model.Gain != nil && (o.Expected.Gain != *j.Model.Gain || !(o.Expected.Gain > *j.Model.Needed)) {
			t.Errorf("%d bytes: %+v", o.Bytes, j.Model)
		}
		if *j.Decision.Expected != *o.Expected || first.Cell != o.Policy.Cell ||
			first.Channels != o.Policy.Channels || first.Micros != o.Expected.Micros {
			t.Errorf("%d bytes: %+v, %+v", o.Bytes, j.Model, o)
		}
	}
	if decided < 2 {
		t.Errorf("the model decided %d times", decided)
	}
	if j := path("allreduce", "8M", "--comm", "4x8"); len(j.Model.ToDo) != 2 ||
		!strings.Contains(j.Model.ToDo[1], "--max-nodes 4") || j.Model.Candidates != nil {
		t.Errorf("%+v", j.Model)
	}
	out, _ := tunefit(t, cli.ExitOK, "explain", "allgather", "8M", "--comm", "2x8", "--model", model)
	if !strings.Contains(out,
		"  abstains: the collective was not measured\n  to do: measure allgather on 2 nodes with 16 ranks") {
		t.Errorf("%s", out)
	}
}

// What was measured and NCCL does not offer here is named, not weighed.
func TestExplainLeavesOut(t *testing.T) {
	text, err := os.ReadFile(smallSweep)
	if err != nil {
		t.Fatal(err)
	}
	more := string(text)
	for line := range strings.Lines(more) {
		if strings.Contains(line, ",tree,simple,16,") {
			more += strings.Replace(line, ",tree,", ",collnet_chain,", 1)
		}
	}
	model := filepath.Join(t.TempDir(), "model.json")
	tunefit(t, cli.ExitOK, "fit", testlib.File(t, "sweep.csv", more), "-o", model)
	out, _ := tunefit(t, cli.ExitOK, "explain", "allreduce", "1M", "--comm", "2x8", "--model", model)
	all, _ := tunefit(t, cli.ExitOK, "explain", "allreduce", "1M", "--comm", "2x8", "--model", model, "--all")
	if strings.Contains(out, "collnet_chain") ||
		!regexp.MustCompile(`\n  collnet_chain/simple 16 ch .* not available here\n`).MatchString(all) {
		t.Errorf("%s\nwith --all\n%s", out, all)
	}
}

func TestExplainBadInput(t *testing.T) {
	file := testlib.File(t, "p.csv", explainedRows)
	bad := testlib.File(t, "bad.csv", "allreduce,0,inf,rign,simple,-1,-1,-1\n")
	for _, test := range []struct {
		code int
		want string
		args string
	}{
		{cli.ExitUsage, `unknown collective "allredcue" (did you mean "allreduce"`, "allredcue 8M --comm 4x8"},
		{cli.ExitUsage, "8M is no collective (did you mean: tunefit explain allreduce 8M)", "8M allreduce --comm 4x8"},
		{cli.ExitUsage, `"8MB" is ambiguous (did you mean "8MiB"`, "allreduce 8MB --comm 4x8"},
		{cli.ExitUsage, "a collective of 0 ", "allreduce 0 --comm 4x8"},
		{cli.ExitUsage, `--comm "4*8": not NODESxRANKS_PER_NODE with at least 2 ranks (needed: as 1x8, or `,
			"allreduce 8M --comm 4*8"},
		{cli.ExitUsage, "which communicator? (needed: --comm NODESxRANKS_PER_NODE, as 4x8", "allreduce 8M"},
		{cli.ExitUsage, "1 arguments given (needed: a collective and a size", "allreduce --comm 4x8"},
		{cli.ExitUsage, "nothing to explain (needed: --policy, --model, $NCCL_TUNER_CONFIG_FILE",
			"allreduce 8M --comm 4x8"},
		{cli.ExitUsage, "--pipe-ops 0", "allreduce 8M --comm 4x8 --pipe-ops 0"},
		{cli.ExitFailed, "bad.csv:1:4: unknown algorithm", "allreduce 8M --comm 4x8 --policy " + bad},
		{cli.ExitFailed, "absent.csv: no such file", "allreduce 8M --comm 4x8 --policy absent.csv"},
		{cli.ExitFailed, "p.csv is a policy (needed: a cost model)",
			"allreduce 8M --comm 4x8 --policy " + file + " --model " + file},
	} {
		if out, errs := tunefit(t, test.code,
			append([]string{"explain"}, strings.Fields(test.args)...)...); out != "" ||
			!strings.Contains(errs, test.want) {
			t.Errorf("%s: %s%s\nwant %s", test.args, out, errs, test.want)
		}
	}
}

// An explanation on a machine that is named by --topo sees what conditions see there.
func TestExplainOnAMachine(t *testing.T) {
	file := testlib.File(t, "p.csv", "collective,algorithm,protocol,when\nallreduce,ring,simple,topo.sm >= 90\n")
	for machine, want := range map[string]string{"dgx-h100": "decides: ring/simple",
		"dgx-a100": "does not hold: topo.sm >= 90, with topo.sm = 80"} {
		out, errs := tunefit(t, cli.ExitOK, "explain", "allreduce", "8M", "--comm", "2x8", "--policy", file, "--topo",
			filepath.Join(testlib.Root, "configs/topo", machine+".xml"))
		if !strings.Contains(out, want) {
			t.Errorf("%s: %s%s", machine, out, errs)
		}
	}
	// A job would refuse a file that others can write to. Who only looks at it runs no risk.
	text, err := os.ReadFile(filepath.Join(testlib.Root, "configs/topo/dgx-h100.xml"))
	if err != nil {
		t.Fatal(err)
	}
	open := testlib.File(t, "open.xml", string(text))
	if err := os.Chmod(open, 0o666); err != nil {
		t.Fatal(err)
	}
	t.Setenv(detect.TunerFileVariable, open)
	args := []string{"explain", "allreduce", "8M", "--comm", "2x8", "--policy", file}
	if out, errs := tunefit(t, cli.ExitOK, args...); !strings.Contains(out, "decides: ring/simple") {
		t.Errorf("%s%s", out, errs)
	}
	os.Unsetenv(detect.TunerFileVariable)
	if _, err := os.Stat("/sys/module/nvidia"); err == nil {
		t.Skip("SKIPPED: this machine has GPUs, its topology is known")
	}
	out, errs := tunefit(t, cli.ExitOK, args...)
	if !strings.Contains(out, "not known here: topo.sm >= 90, with topo.sm not known") ||
		!strings.Contains(errs, "the topology of this machine is not known") {
		t.Errorf("%s%s", out, errs)
	}
}

// A cell that NCCL leaves to a tuner has no estimate: no number stands for it.
func TestExplainTunerOnly(t *testing.T) {
	file := testlib.File(t, "pat.csv", "allgather,0,inf,pat,simple,-1,-1,-1\n")
	args := []string{"explain", "allgather", "1M", "--comm", "2x8", "--policy", file, "--nccl", "2.31.2"}
	out, _ := tunefit(t, cli.ExitOK, args...)
	if !regexp.MustCompile(`\n  pat/simple +- +NCCL never chooses it by itself\n`).MatchString(out) {
		t.Errorf("%s", out)
	}
	for _, chosen := range []string{"", "PAT"} {
		t.Setenv("NCCL_ALGO", chosen)
		out, _ = tunefit(t, cli.ExitOK, append(args, "--json")...)
		if strings.Contains(out, "e+38") || !strings.Contains(out, `"not_estimated": true`) {
			t.Errorf("NCCL_ALGO=%s: %s", chosen, out)
		}
	}
}

// show refuses the calls that explain refuses.
func TestShowBadCall(t *testing.T) {
	file := testlib.File(t, "p.csv", explainedRows)
	for _, call := range []string{"--pipe-ops=0", "--pipe-ops=-1", "--reg-buff=2", "--reg-buff=-1"} {
		if out, errs := tunefit(t, cli.ExitUsage, "show", file, call); out != "" ||
			!strings.Contains(errs, "(allowed: 1 or more; 0 or 1)") {
			t.Errorf("%s: %s%s", call, out, errs)
		}
	}
}
