package command

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// printedEvaluation is what check --measured --json prints of a group, but for why a model abstains.
type printedEvaluation struct {
	fit.Validation
	Left int `json:"left"`
}

const sweepHead = "collective,size_bytes,dtype,redop,algorithm,protocol,channels,nodes,ranks,inplace,selection,time_us,algbw_gbps,busbw_gbps,source\n"

// Measurements with which nothing can be compared end in a failure that says why.
func TestMeasuredOfNothing(t *testing.T) {
	dir := t.TempDir()
	model := filepath.Join(dir, "model.json")
	tunefit(t, cli.ExitOK, "fit", smallSweep, "-o", model)
	text, err := os.ReadFile(smallSweep)
	if err != nil {
		t.Fatal(err)
	}
	lines := func(keep func(line string) bool) string {
		kept := sweepHead
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "all_reduce,") && keep(line) {
				kept += line
			}
		}
		return kept
	}
	const unasked = "what is chosen there was not measured\n"
	for name, c := range map[string]struct{ sweep, out, says string }{
		"the default only": {lines(func(l string) bool { return strings.Contains(l, ",default,") }), unasked,
			"nothing to compare (needed: "},
		"one configuration only": {
			lines(func(l string) bool { return strings.Contains(l, ",ring,simple,1,2,16,0,forced,") }), "abstains at",
			"nothing to compare (needed: "},
		"another communicator": {strings.ReplaceAll(lines(func(string) bool { return true }), ",2,16,0,", ",4,32,0,"),
			"another number of nodes was measured\n",
			"nothing to compare (needed: "},
		"other sizes": {
			sweepHead + "all_reduce,64,float,sum,ring,ll,1,2,16,0,forced,9,,,x\n" +
				"all_reduce,64,float,sum,tree,ll,1,2,16,0,default,8,,,x\n", "the size is outside those measured\n",
			"nothing to compare (needed: "},
		"nothing that it chooses": {lines(func(l string) bool {
			return strings.Contains(l, ",ring,simple,1,2,16,0,forced,") ||
				strings.Contains(l, ",tree,simple,1,2,16,0,forced,")
		}), "abstains at", "nothing to compare (needed: "},
	} {
		t.Run(name, func(t *testing.T) {
			sweep := testlib.File(t, "sweep.csv", c.sweep)
			out, said := tunefit(t, cli.ExitFailed, "check", model, "--measured", sweep)
			if !strings.Contains(out, c.out) || strings.Contains(out, "policy / best") ||
				!strings.Contains(said, "tunefit: "+c.says) {
				t.Errorf("%s%s", out, said)
			}
			out, said = tunefit(t, cli.ExitFailed, "check", model, "--measured", sweep, "--json")
			var all []printedEvaluation
			if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != 1 || all[0].PolicyScore.Decisions != 0 ||
				all[0].Plain.Decisions != 0 || !strings.Contains(said, c.says) {
				t.Errorf("%v: %s%s", err, out, said)
			}
		})
	}
}

// NCCL's default may be the best that was measured.
func TestMeasuredCountsTheDefault(t *testing.T) {
	model := filepath.Join(t.TempDir(), "model.json")
	tunefit(t, cli.ExitOK, "fit", smallSweep, "-o", model)
	// At 4 KiB the model chooses tree/ll with 4 channels, at 16 KiB it leaves it to NCCL.
	sweep := testlib.File(t, "sweep.csv", sweepHead+
		"all_reduce,4096,float,sum,tree,ll,4,2,16,0,forced,10,,,x\nall_reduce,4096,float,sum,,,,2,16,0,default,8,,,x\n"+
		"all_reduce,16384,float,sum,tree,ll,4,2,16,0,forced,15,,,x\n"+
		"all_reduce,16384,float,sum,tree,ll,16,2,16,0,default,12,,,x\n")
	out, _ := tunefit(t, cli.ExitOK, "check", model, "--measured", sweep, "--json")
	var all []printedEvaluation
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	e := all[0]
	if e.Default.Decisions == 0 || e.Default.Mean != 1 || e.PolicyScore.Decisions == 0 ||
		math.Abs(e.PolicyScore.Max-10.0/8) > 1e-9 || math.Abs(e.PolicyScore.Mean-(10.0/8+1)/2) > 1e-9 || e.Decided != 1 ||
		e.Harm != 1 || e.WorstHarm != 10.0/8 {
		t.Errorf("%s", out)
	}
}

// A decision whose time was not measured is none of those that do no harm.
func TestMeasuredOfUnmeasuredDecisions(t *testing.T) {
	model := filepath.Join(t.TempDir(), "model.json")
	tunefit(t, cli.ExitOK, "fit", smallSweep, "-o", model)
	sweep := testlib.File(t, "sweep.csv", sweepHead+
		"all_reduce,4096,float,sum,tree,ll,1,2,16,0,forced,12,,,x\n"+
		"all_reduce,4096,float,sum,tree,ll,16,2,16,0,default,13,,,x\n"+
		"all_reduce,16384,float,sum,tree,ll,4,2,16,0,forced,15,,,x\n"+
		"all_reduce,16384,float,sum,tree,ll,16,2,16,0,default,12,,,x\n")
	out, _ := tunefit(t, cli.ExitOK, "check", model, "--measured", sweep)
	// the default was best where it is left alone, and is not compared elsewhere
	if rows := strings.Fields(strings.Split(out, "allreduce 2x8")[1]); rows[0] != "1.000" || rows[8] != rows[0] {
		t.Errorf("default %s beside policy %s: %q\n%s", rows[8], rows[0], rows, out)
	}
	if !strings.Contains(out, "  0 of 0  ") ||
		!strings.Contains(out, "\nallreduce 2x8: not judged at 1 of 2 sizes: what is chosen there was not measured\n") {
		t.Errorf("%s", out)
	}
}

// Sweeps follow --measured, as a shell gives them; whoever swaps files is told how they go.
func TestMeasuredArguments(t *testing.T) {
	model := filepath.Join(t.TempDir(), "model.json")
	tunefit(t, cli.ExitOK, "fit", smallSweep, "-o", model)
	rows, other := testlib.File(t, "rows.csv", sample), testlib.File(t, "other.csv", sweepHead+
		"all_reduce,4096,float,sum,tree,ll,1,2,16,0,forced,12,,,x\n"+
		"all_reduce,4096,float,sum,tree,ll,16,2,16,0,default,13,,,x\n")
	want, _ := tunefit(t, cli.ExitOK, "check", model, "--measured", smallSweep, other)
	for _, args := range [][]string{
		{"--measured", smallSweep, model, other}, {model, other, "--measured", smallSweep},
		{model, "--measured", smallSweep, "--measured", other},
	} {
		if got, _ := tunefit(t, cli.ExitOK, append([]string{"check"}, args...)...); got != want {
			t.Errorf("%q: %s\nwant\n%s", args, got, want)
		}
	}
	for _, c := range []struct {
		code int
		args []string
		says string
	}{
		{cli.ExitUsage, []string{smallSweep, "--measured", model},
			smallSweep + " is neither a cost model nor a policy, " + model +
				" is a cost model (did you mean: tunefit check " + model + " --measured " + smallSweep + ")\n"},
		{cli.ExitUsage, []string{"--measured", smallSweep, smallSweep, rows},
			smallSweep + " is neither a cost model nor a policy, " + rows +
				" is a policy (did you mean: tunefit check " + rows + " --measured " + smallSweep + " " + smallSweep + ")\n"},
		{cli.ExitFailed, []string{testlib.File(t, "empty.csv", "\n"), "--measured", smallSweep},
			"empty.csv is empty (needed: a cost model or a policy)\n"},
		{cli.ExitFailed, []string{smallSweep, "--measured", smallSweep},
			smallSweep + " is a sweep: measurements (needed: a cost model or a policy); tunefit fit " + smallSweep +
				" --csv policy.csv learns a policy from it\nneeded first: a cost model or a policy; its sweeps follow --measured\n"},
		{cli.ExitUsage, []string{"--measured", smallSweep}, "0 arguments given (needed: the policy or the model)"},
		{cli.ExitUsage, []string{model, "--measured"}, "flag needs an argument: --measured"},
		{cli.ExitFailed, []string{model, "--measured", ""}, "no such file"},
		{cli.ExitUsage, []string{model, "--measured", smallSweep, "--nccl", "2.28.9"}, "--measured takes no --nccl"},
		{cli.ExitUsage, []string{model, "--measured", smallSweep, "--invariant"}, "--measured takes no --invariant"},
	} {
		if out, said := tunefit(t, c.code, append([]string{"check"}, c.args...)...); out != "" ||
			!strings.Contains(said, c.says) {
			t.Errorf("%q: %s%s", c.args, out, said)
		}
	}
}

// A policy's rows are judged as a model is: with the default where they leave a size or
// the channels alone.
func TestMeasuredOfAPolicy(t *testing.T) {
	sweep := testlib.File(t, "sweep.csv", sweepHead+
		"all_reduce,4096,float,sum,tree,ll,4,2,16,0,forced,10,,,x\n"+
		"all_reduce,4096,float,sum,ring,ll,4,2,16,0,default,8,,,x\n"+
		"all_reduce,16384,float,sum,tree,ll,4,2,16,0,forced,15,,,x\n"+
		"all_reduce,16384,float,sum,tree,ll,16,2,16,0,default,30,,,x\n"+
		"all_reduce,65536,float,sum,ring,ll,4,2,16,0,forced,45,,,x\n"+
		"all_reduce,65536,float,sum,tree,ll,16,2,16,0,default,30,,,x\n")
	rows := testlib.File(t, "policy.csv", "allreduce,0,8192,tree,ll,4,2,16\nallreduce,16384,16384,tree,ll,-1,2,16\n")
	out, _ := tunefit(t, cli.ExitOK, "check", rows, "--measured", sweep, "--json")
	var all []printedEvaluation
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	// 10 instead of 8 us; as the default, twice the best; left alone, the best.
	e := all[0]
	if e.PolicyScore.Decisions != 3 || math.Abs(e.PolicyScore.Mean-(10.0/8+2+1)/3) > 1e-9 || e.Plain.Decisions != 0 ||
		e.Decided != 1 || e.Harm != 1 || e.Left != 1 {
		t.Errorf("%s", out)
	}
	if out, _ := tunefit(t, cli.ExitOK, "check", rows, "--measured", sweep); !strings.Contains(out,
		"allreduce 2x8: no row decides at 1 of 3 sizes\n") {
		t.Errorf("%s", out)
	}
}
