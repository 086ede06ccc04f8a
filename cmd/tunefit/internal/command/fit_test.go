package command

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

const smallSweep = "../../../../policy/fit/testdata/small.csv"

func TestFitAndEval(t *testing.T) {
	dir := t.TempDir()
	model, csv := filepath.Join(dir, "model.json"), filepath.Join(dir, "tuner.csv")
	out, _ := tunefit(t, cli.ExitOK, "fit", smallSweep, "-o", model, "--csv", csv)
	for _, want := range []string{
		"measurements: 442 used, 0 refused", "442 of those used are simulated", "allreduce 2x8", "every other size",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	out, _ = tunefit(t, cli.ExitOK, "fit", smallSweep, "--csv", csv, "--force", "--json")
	var found fitJSON
	if err := json.Unmarshal([]byte(out), &found); err != nil || found.Measurements != 442 || found.Simulated != 442 ||
		len(found.Groups) != 1 || !(found.Groups[0].Gain > 0) || found.Rows == 0 || found.Policy != csv ||
		found.Model != "" {
		t.Errorf("%v: %s", err, out)
	}
	first, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	if _, errs := tunefit(t, cli.ExitFailed, "fit", smallSweep, "-o", model); !strings.Contains(errs, "--force") {
		t.Errorf("a model is overwritten unasked, or the message does not say how: %s", errs)
	}
	tunefit(t, cli.ExitOK, "fit", smallSweep, "-o", model, "--force")
	if again, err := os.ReadFile(model); err != nil || !bytes.Equal(first, again) {
		t.Errorf("the same sweep gives another model (%v)", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("left behind: %v (%v)", left, err)
	}

	if _, errs := tunefit(t, cli.ExitUsage, "fit", smallSweep, "--csv", csv, "--report",
		filepath.Join(dir, ".", "tuner.csv"), "--force"); !strings.Contains(errs,
		"--csv and --report name the same file") {
		t.Errorf("said %s", errs)
	}

	out, errs := tunefit(t, cli.ExitOK, "check", model, "--measured", smallSweep)
	if !strings.Contains(out, "policy / best") || !strings.Contains(errs, "is what the model was fitted to") {
		t.Errorf("check says\n%s%s", out, errs)
	}
	out, _ = tunefit(t, cli.ExitOK, "check", model, "--measured", smallSweep, "--json")
	var results []printedEvaluation
	if err := json.Unmarshal([]byte(out), &results); err != nil || len(results) != 1 ||
		results[0].PolicyScore.Decisions == 0 || results[0].PolicyScore.Mean >= results[0].Default.Mean {
		t.Errorf("%v: %s", err, out)
	}
}

func TestFitReport(t *testing.T) {
	dir := t.TempDir()
	page, fitted := filepath.Join(dir, "report.html"), filepath.Join(dir, "model.json")
	const system = "../../../../configs/topo/dgx-h100.xml"
	tunefit(t, cli.ExitOK, "fit", smallSweep, "--report", page, "-o", fitted, "--topo", system, "--made-with",
		"2.30.7")
	text, err := os.ReadFile(fitted)
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Read(fitted, text)
	if err != nil {
		t.Fatal(err)
	}
	home := m.File.Provenance.Topology
	if home == nil || home.Summary.GPUs != 8 || home.Summary.NICs != 8 || home.Summary.SM != 90 {
		t.Fatalf("topology %+v", home)
	}
	if out, _ := tunefit(t, cli.ExitOK, "topo", system); !strings.Contains(out, string(home.Fingerprint)) {
		t.Errorf("fingerprint %s, tunefit topo says\n%s", home.Fingerprint, out)
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{string(home.Fingerprint), "2.30.7",
		"small.csv", m.File.Provenance.Files[0].SHA256} {
		if !bytes.Contains(html, []byte(want)) {
			t.Errorf("%q is not on the page", want)
		}
	}
	if _, errs := tunefit(t, cli.ExitFailed, "fit", smallSweep, "--report", page); !strings.Contains(errs, "--force") {
		t.Errorf("a report is overwritten unasked, or the message does not say how: %s", errs)
	}
	tunefit(t, cli.ExitFailed, "fit", smallSweep, "--report", filepath.Join(dir, "other.html"), "--topo", smallSweep)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

// Two sweeps that contradict each other are named without being asked for.
func TestFitNamesContradictingSweeps(t *testing.T) {
	sweep, err := os.ReadFile(smallSweep)
	if err != nil {
		t.Fatal(err)
	}
	r, err := testlib.Measurements(smallSweep)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Samples {
		r.Samples[i].Micros *= 1.4
		r.Samples[i].AlgBW, r.Samples[i].BusBW = 0, 0
	}
	var slower strings.Builder
	if err := bench.WriteTidy(&slower, r.Samples); err != nil {
		t.Fatal(err)
	}
	a, b := testlib.File(t, "a.csv", string(sweep)), testlib.File(t, "b.csv", slower.String())
	out, _ := tunefit(t, cli.ExitOK, "fit", a, b)
	if want := "\ndoubtful: allreduce 2x8: " + a + " and " + b + " contradict each other: "; !strings.Contains(out,
		want) {
		t.Errorf("no %q in\n%s", want, out)
	}
	if out, _ := tunefit(t, cli.ExitOK, "fit", a); strings.Contains(out, "doubtful") {
		t.Errorf("one sweep contradicts itself:\n%s", out)
	}
}

// Whatever is wrong, there is a message, an exit code and no file.
func TestFitBadInput(t *testing.T) {
	const header = "collective,size_bytes,dtype,redop,algorithm,protocol,channels,nodes,ranks,inplace,selection,time_us,algbw_gbps,busbw_gbps,source\n"
	for name, test := range map[string]struct {
		text, want string
		code       int
	}{
		"not a sweep": {"hello\n", "no measurements in it", cli.ExitFailed},
		"empty":       {"", "no measurements in it", cli.ExitFailed},
		"no time":     {header + "all_reduce,1024,float,sum,ring,ll,1,1,8,0,forced,nan,0,0,x\n", "", cli.ExitFailed},
		"default only": {header + "all_reduce,1024,float,sum,,,,1,8,0,default,10,0,0,x\n",
			"nothing but the default was measured", cli.ExitFailed},
		"unlabelled": {header + "all_reduce,1024,float,sum,ring,,,1,8,0,forced,10,0,0,x\n",
			"not one usable measurement", cli.ExitFailed},
		"misspelt": {header + "all_reduce,1024,float,sum,rign,ll,1,1,8,0,forced,10,0,0,x\n",
			`:2: algorithm: unknown algorithm "rign" (did you mean "ring"`, cli.ExitFailed},
		"milliseconds": {header + "all_reduce,1048576,float,sum,ring,ll,1,1,8,0,forced,0.05,20.97,0,x\n",
			"not one usable measurement", cli.ExitFailed},
		"never offered": {header + "all_gather,1024,float,,tree,ll,1,1,8,0,forced,10,0,0,x\n",
			"1: NCCL never has tree/ll for allgather: the label is wrong (", cli.ExitFailed},
		"one row": {header + "all_reduce,1024,float,sum,ring,ll,1,1,8,0,forced,10,0,0,x\n", "", cli.ExitOK},
		"duplicate row": {header + strings.Repeat("all_reduce,1024,float,sum,ring,ll,1,1,8,0,forced,10,0,0,x\n", 3),
			"", cli.ExitOK},
	} {
		t.Run(name, func(t *testing.T) {
			file := testlib.File(t, "sweep.csv", test.text)
			model := filepath.Join(filepath.Dir(file), "model.json")
			out, errs := tunefit(t, test.code, "fit", file, "-o", model)
			if !strings.Contains(out+errs, test.want) {
				t.Errorf("got %s%s, want %q", out, errs, test.want)
			}
			if _, err := os.Stat(model); (err == nil) != (test.code == cli.ExitOK) {
				t.Errorf("exit code %d, model: %v", test.code, err)
			}
		})
	}
	tunefit(t, cli.ExitUsage, "fit")
	tunefit(t, cli.ExitUsage, "fit", smallSweep, "--max-nodes", "1")
}

// Comments are for people: without them the policy is the same version.
func TestFitComments(t *testing.T) {
	rows := filepath.Join(t.TempDir(), "policy.csv")
	tunefit(t, cli.ExitOK, "fit", smallSweep, "--csv", rows)
	text, err := os.ReadFile(rows)
	if err != nil {
		t.Fatal(err)
	}
	bare := testlib.File(t, "bare.csv", regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(string(text), ""))
	if out, _ := tunefit(t, cli.ExitOK, "diff", rows, bare); out != "no difference\n" {
		t.Error(out)
	}
}
