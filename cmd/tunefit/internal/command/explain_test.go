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

// Without --policy it explains what a job with this environment decides.
func TestExplainJob(t *testing.T) {
	file := testlib.File(t, "p.csv", "allreduce,0,inf,ring,simple,12,-1,-1\n")
	args := []string{"explain", "allreduce", "8M", "--comm", "4x8"}
	want, _ := tunefit(t, cli.ExitOK, append(args, "--policy", file)...)
	t.Setenv(tuner.EnvConfigFile, file)
	if got, _ := tunefit(t, cli.ExitOK, args...); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
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
		"\n  many.csv:4997  is for size 4996000 - 4996999, not 5000000\n",
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

// An explanation without --topo is of this machine.
func TestExplainHere(t *testing.T) {
	file := testlib.File(t, "p.csv", "collective,algorithm,protocol,when\nallreduce,ring,simple,topo.sm >= 90\n")
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
