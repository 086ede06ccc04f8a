package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
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

// The report and the model say on which machine was measured.
// nccl-tests measures each size in place, too, of which fit needs nothing: that is no refusal.
func TestFitSaysWhatItDoesNotNeed(t *testing.T) {
	out, _ := tunefit(t, cli.ExitFailed, "fit", "../../../../bench/compare/testdata/before-1.log")
	if !strings.Contains(out, "measurements: 6 used, 6 not needed, 0 refused\n  6: in-place; out-of-place is kept") {
		t.Error(out)
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

// What to do comes first, in words, and what is not saved is said.
func TestFitLeadsWithAVerdict(t *testing.T) {
	out, errs := tunefit(t, cli.ExitOK, "fit", smallSweep)
	if !regexp.MustCompile(`^allreduce 2x8  use it: .* % less time at .*\n`).MatchString(out) {
		t.Errorf("it does not begin with what to do:\n%s", out)
	}
	if strings.Contains(out, "regret") || !strings.Contains(out, "simulated") ||
		!strings.Contains(errs, "nothing was saved") {
		t.Errorf("got\n%s%s", out, errs)
	}
	if _, errs := tunefit(t, cli.ExitOK, "fit", smallSweep, "-o",
		filepath.Join(t.TempDir(), "m.json")); strings.Contains(errs, "nothing was saved") {
		t.Errorf("said %s", errs)
	}
}

// Two sweeps that contradict each other are named without being asked for.
func TestFitNamesContradictingSweeps(t *testing.T) {
	sweep, err := os.ReadFile(smallSweep)
	if err != nil {
		t.Fatal(err)
	}
	r, err := bench.ReadFile(smallSweep, bench.Options{})
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

// Rows for more nodes than were measured say so, to a person and to show, check and the page; a model has no answer.
func TestFitForMoreNodes(t *testing.T) {
	sweep := "collective,size_bytes,algorithm,protocol,channels,nodes,ranks,selection,time_us\n"
	for size := 1 << 20; size <= 16<<20; size *= 2 {
		sweep += fmt.Sprintf("allreduce,%d,tree,simple,16,2,16,default,100\n"+
			"allreduce,%[1]d,ring,ll128,32,2,16,forced,60\nallreduce,%[1]d,ring,ll128,16,2,16,forced,70\n", size)
	}
	file, dir := testlib.File(t, "sweep.csv", sweep), t.TempDir()
	rows, page, fitted := filepath.Join(dir, "policy.csv"), filepath.Join(dir, "page.html"), filepath.Join(dir, "m.json")
	const said = "allreduce on 3x8 to 4x8: not measured: 2 rows carried over from 2x8, where each saves more than 14 % " +
		"of the default's time"
	out, _ := tunefit(t, cli.ExitOK, "fit", file, "--max-nodes", "4", "--csv", rows, "--report", page, "-o", fitted)
	if !strings.Contains(out, said+"\n") {
		t.Errorf("it does not say %q:\n%s", said, out)
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(html.UnescapeString(string(text)), said) {
		t.Errorf("the page does not say %q (%v)", said, err)
	}
	text, err = os.ReadFile(rows)
	const comment = "# 1MiB - 16MiB: on 2 nodes with 32 channels 40 % faster than NCCL's default, " +
		"5 sizes measured, one run each: not sure\n# tunefit:nodes 2 -- not measured on 4\nallreduce,1048576,16777216,ring,ll128,16,4,32,-1,-1\n"
	if err != nil || !strings.Contains(string(text), comment) {
		t.Errorf("%v\n%s", err, text)
	}
	found, _ := tunefit(t, cli.ExitOK, "check", rows)
	if !strings.Contains(found, "carried over from 2 nodes: nothing was measured where the row is for [not-measured]") {
		t.Errorf("check says\n%s", found)
	}
	shown, _ := tunefit(t, cli.ExitOK, "show", rows, "--model", fitted, "--coll", "allreduce", "--comm", "4x8")
	if !regexp.MustCompile(`1MiB - .* ring/ll128 +16 .* policy.csv:[0-9]+, not measured: as on 2 nodes\n`).MatchString(shown) ||
		strings.Contains(shown, "m.json") {
		t.Errorf("show prints\n%s", shown)
	}
	// Without its comments it is the same version.
	bare := testlib.File(t, "bare.csv", regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(string(text), ""))
	if same, _ := tunefit(t, cli.ExitOK, "diff", rows, bare); !strings.HasPrefix(same, "no difference\n") ||
		strings.Contains(same, "versions") {
		t.Errorf("diff says\n%s", same)
	}
	_, errs := tunefit(t, cli.ExitUsage, "fit", file, "--max-nodes", "5")
	if !strings.Contains(errs, "--max-nodes 5 (allowed: 3 to 4, twice the nodes that were measured)") {
		t.Errorf("said %s", errs)
	}
	one := testlib.File(t, "one.csv", strings.ReplaceAll(sweep, ",2,16,", ",1,8,"))
	if _, errs := tunefit(t, cli.ExitUsage, "fit", one, "--max-nodes", "3"); !strings.Contains(errs,
		"nothing was measured on several nodes, and one tells nothing about them") {
		t.Errorf("said %s", errs)
	}
	little := testlib.File(t, "little.csv", strings.NewReplacer(",60\n", ",90\n", ",70\n", ",95\n").Replace(sweep))
	if _, errs := tunefit(t, cli.ExitOK, "fit", little, "--max-nodes", "3"); !strings.Contains(errs,
		"nothing is carried over to more nodes") {
		t.Errorf("said %s", errs)
	}
}

// Times under different options of nccl-tests, or under variables that change NCCL's default, are never compared.
func TestFitOfUnlikeRuns(t *testing.T) {
	const header = "collective,size_bytes,dtype,redop,algorithm,protocol,channels,nodes,ranks,selection,time_us,options,variables\n"
	const eager, graph = "-t 1 -g 8 -n 20 -w 5", "-t 1 -g 8 -n 20 -w 5 -G 10"
	rows := func(config, options, variables string, micros float64) (text string) {
		for size := 1 << 10; size <= 1<<24; size *= 4 {
			text += fmt.Sprintf("allreduce,%d,float,sum,%s,%.3f,%s,%s\n", size, config, micros+float64(size)/1e5, options,
				variables)
		}
		return text
	}
	const byDefault, ring = ",,,1,8,default", "ring,ll128,16,1,8,forced"
	for name, c := range map[string]struct {
		sweep string
		runs  string
		code  int
		want  []string
	}{
		"graph and eager": {rows(byDefault, eager, "", 33) + rows(ring, graph, "", 5), "", cli.ExitFailed,
			[]string{"allreduce 1x8, 8 rows: " + eager + "\n", "allreduce 1x8, 8 rows: " + graph + "\n",
				"nothing was written (--runs names what to fit: graph or eager)"}},
		"eager of both": {rows(byDefault, eager, "", 33) + rows(ring, eager, "", 30) + rows(ring, graph, "", 5), "eager",
			cli.ExitOK, []string{"measured under " + eager + "\n", "8: measured under other conditions than --runs names"}},
		"as printed": {rows(byDefault, eager, "", 33) + rows(ring, eager, "", 30) + rows(byDefault, eager,
			"NCCL_NVLS_ENABLE=0", 60), eager, cli.ExitOK, []string{"measured under " + eager + "\n"}},
		"variables": {rows(byDefault, eager, "", 33) + rows(ring, eager, "", 30) + rows(byDefault, eager,
			"NCCL_NVLS_ENABLE=0", 60), "", cli.ExitFailed, []string{"8 rows: " + eager + " NCCL_NVLS_ENABLE=0\n"}},
		"two eager": {rows(byDefault, eager, "", 33) + rows(ring, "-t 1 -g 8 -n 50 -w 5", "", 30), "", cli.ExitFailed,
			[]string{`(--runs names what to fit: "-t 1 -g 8 -n 20 -w 5" or "-t 1 -g 8 -n 50 -w 5")`}},
		"only under variables": {rows(byDefault, eager, "NCCL_NVLS_ENABLE=0", 60) + rows(ring, eager,
			"NCCL_NVLS_ENABLE=0", 30), "", cli.ExitOK, []string{"NCCL_NVLS_ENABLE=0 (for jobs with these variables only)"}},
		"options that are not told": {rows(byDefault, "", "", 33) + rows(ring, eager, "", 5), "", cli.ExitFailed,
			[]string{"8 rows: options not known"}},
		"graphs choose otherwise": {rows(byDefault, eager, "", 33) + rows(ring, eager, "", 33) + rows(byDefault, graph, "", 9) +
			rows(ring, graph, "", 5), "graph", cli.ExitOK, []string{"graphs and eager runs choose differently (",
			"\n  allreduce 1x8 at 1KiB - ", ": ring/ll128 16 ch in graphs, NCCL's default in eager runs, which takes up to 1.80 times as long in graphs\n"}},
		"and eager runs": {rows(byDefault, eager, "", 33) + rows(ring, eager, "", 20) + rows(byDefault, graph, "", 9) +
			rows(ring, graph, "", 9), "eager", cli.ExitOK, []string{
			": ring/ll128 16 ch in eager runs, NCCL's default in graphs, which takes up to 1.65 times as long in eager runs\n"}},
		"graphs choose alike": {rows(byDefault, eager, "", 33) + rows(ring, eager, "", 20) + rows(byDefault, graph, "", 9) +
			rows(ring, graph, "", 5), "graph", cli.ExitOK, []string{"measured under " + graph + "\n"}},
		"none": {rows(byDefault, eager, "", 33), "graph", cli.ExitFailed, []string{`nothing was measured under --runs "graph"`}},
	} {
		policy := filepath.Join(t.TempDir(), "p.csv")
		args := []string{"fit", testlib.File(t, "sweep.csv", header+c.sweep), "--csv", policy}
		if c.runs != "" {
			args = append(args, "--runs", c.runs)
		}
		out, said := tunefit(t, c.code, args...)
		for _, want := range c.want {
			if !strings.Contains(out+said, want) {
				t.Errorf("%s: it says\n%s%swant %q", name, out, said, want)
			}
		}
		if name == "graphs choose alike" && strings.Contains(out+said, "differently") {
			t.Errorf("%s: it says\n%s%s", name, out, said)
		}
		text, err := os.ReadFile(policy)
		if (err == nil) != (c.code == cli.ExitOK) {
			t.Errorf("%s: policy: %v", name, err)
		}
		only := strings.Contains(string(text), "# tunefit:under NCCL_NVLS_ENABLE=0 -- for jobs with these variables only\n")
		graphs := strings.Contains(string(text), "# measured in CUDA graphs, for jobs that replay graphs\n")
		if graphs != (c.runs == "graph" && err == nil) || only != (name == "only under variables") {
			t.Errorf("%s: the policy is\n%s", name, text)
		}
	}
}
