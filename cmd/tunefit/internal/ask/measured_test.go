package ask_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// learnt fits a sweep and returns the files that come of it.
func learnt(t *testing.T, sweep string, args ...string) (model, rows, report string) {
	t.Helper()
	dir := t.TempDir()
	model, rows, report = filepath.Join(dir, "model.json"), filepath.Join(dir, "rows.csv"), filepath.Join(dir,
		"report.html")
	tunefit(t, cli.ExitOK, append([]string{"fit", sweep, "-o", model, "--csv", rows, "--report", report}, args...)...)
	return model, rows, report
}

// shown is what show says of allreduce, by size.
func shown(t *testing.T, args ...string) (bySize map[uint64]ask.Outcome, notes string) {
	t.Helper()
	out, notes := tunefit(t, cli.ExitOK, append([]string{"show", "--coll", "allreduce", "--json"}, args...)...)
	var all []ask.Outcome
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	bySize = map[uint64]ask.Outcome{}
	for _, o := range all {
		bySize[o.Bytes] = o
	}
	return bySize, notes
}

// All that speaks of a gain over NCCL's default reckons with the same choice: the one
// that was measured, whatever NCCL's estimates for another machine say.
func TestOneChoiceOfNCCLs(t *testing.T) {
	model, rows, report := learnt(t, smallSweep)
	page, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	withFiles := []string{rows, "--model", model, "--comm", "2x8", "--sizes", "4K-256M"}
	all, notes := shown(t, withFiles...)
	if strings.Contains(notes, "estimates") {
		t.Errorf("nothing is estimated, and it says %s", notes)
	}
	gains := 0
	for _, d := range regexp.MustCompile(
		`\{"b":(\d+),[^{}]*"d":([\d.]+),"dl":"(\w+)/(\w+)[^{}]*?("row":"[^{}]*)?"g":(null|[-\d.e]+)`).
		FindAllStringSubmatch(string(page), -1) {
		bytes, _ := strconv.ParseUint(d[1], 10, 64)
		micros, _ := strconv.ParseFloat(d[2], 64)
		o := all[bytes]
		if o.NCCL.Cell.String() != d[3]+"/"+d[4] || math.Abs(float64(o.NCCLMicros)/micros-1) > 0.01 ||
			o.Known != "measurement" || o.CostModel != "" {
			t.Errorf("%d bytes: the report says that NCCL takes %s/%s, %g us; show says %+v by %s", bytes, d[3], d[4],
				micros, o.NCCL, o.Known)
		}
		if d[6] == "null" || o.Row == 0 {
			continue
		}
		gains++
		gain, _ := strconv.ParseFloat(d[6], 64)
		if o.Expected == nil || math.Abs(o.Expected.Gain-gain) > 0.01 {
			t.Errorf("%d bytes: the report says a gain of %g, show %v", bytes, gain, o.Expected)
			continue
		}
		size := strconv.FormatUint(bytes, 10)
		out, _ := tunefit(t, cli.ExitOK, "explain", "allreduce", size, "--comm", "2x8", "--policy", rows,
			"--model", model)
		for _, want := range []string{
			fmt.Sprintf("\nNCCL's default, as measured (%s): %s/%s ", model, d[3], d[4]),
			fmt.Sprintf("\nexpected gain: %s (", cli.Percent(o.Expected.Gain)),
		} {
			if !strings.Contains(out, want) {
				t.Errorf("%q is missing in\n%s", want, out)
			}
		}
	}
	if gains < 4 {
		t.Errorf("%d gains compared", gains)
	}
	text, _ := tunefit(t, cli.ExitOK, append([]string{"show", "--coll", "allreduce"}, withFiles...)...)
	if !regexp.MustCompile(
		`(?m)^allreduce +2x8 +370728 - 2642245 +ring/simple +measurement +tree/simple 16 ch +15.7 - 26.2 % +rows.csv:15$`).
		MatchString(text) {
		t.Errorf("%s", text)
	}

	// 2 MiB: NCCL 2.30.7 on an H100 would take nvls_tree/simple.
	const keep, ring = "allreduce,2M,2M,default,,,2,16\n", "allreduce,2M,2M,tree,simple,,2,16\n"
	before, after := testlib.File(t, "old.csv", keep), testlib.File(t, "new.csv", ring)
	out, _ := tunefit(t, cli.ExitFailed, "diff", before, after, "--model", model, "--coll", "allreduce", "--comm",
		"2x8", "--sizes", "2M")
	if !strings.Contains(out, "  ring/simple  "+before+":1  tree/simple  "+after+":1\n") {
		t.Errorf("%s", out)
	}
	tests := func(expect string) string {
		return testlib.File(t, "x_test.yaml",
			fmt.Sprintf("policy: %s\nmodel: %s\ntests:\n  - {name: x, collective: allreduce, nodes: 2, ranks: 16, "+
				"size: 2M, %s}\n", before, model, expect))
	}
	tunefit(t, cli.ExitOK, "check", before, "--tests", tests("expect: {algorithm: ring, protocol: simple}"))
	// What a test says of NCCL's offers counts before what was measured.
	tunefit(t, cli.ExitOK, "check", before, "--tests",
		tests("unavailable: [ring, nvls, nvls_tree, any/ll128], expect: {algorithm: tree, protocol: simple}"))
	tunefit(t, cli.ExitOK, "check", before, "--tests",
		tests("costs: {ring/simple: 9, tree/ll128: 8}, expect: {algorithm: tree, protocol: ll128}"))
}

// Where a default was measured without its label, its time counts all the same.
func TestDefaultWithoutLabel(t *testing.T) {
	text, err := os.ReadFile(smallSweep)
	if err != nil {
		t.Fatal(err)
	}
	unlabelled := regexp.MustCompile(`,\w+,\w+,\d+,2,16,0,default,`).ReplaceAllString(string(text),
		",,,,2,16,0,default,")
	model, _, _ := learnt(t, testlib.File(t, "sweep.csv", unlabelled))
	all, notes := shown(t, "--model", model, "--comm", "2x8", "--sizes", "2M")
	if o := all[2<<20]; o.Known != "cost model, time measured" || math.Abs(float64(o.NCCLMicros)/107.2-1) > 0.01 ||
		o.NCCL.Algo != nccl.AlgoNVLSTree || o.NCCL.Channels != 0 || o.CostModel == "" {
		t.Errorf("%+v", o)
	}
	if !strings.Contains(notes, "NCCL 2.30.7's estimates for HGX H100") {
		t.Errorf("%s", notes)
	}
	out, _ := tunefit(t, cli.ExitOK, "explain", "allreduce", "2M", "--comm", "2x8", "--model", model)
	if !strings.Contains(out, "\nNCCL's default, as measured ("+model+"): 107.2 us; what took it is not known\n") {
		t.Errorf("%s", out)
	}
}

// Beyond what was measured NCCL's estimates say what it chooses, and are named.
func TestBeyondTheMeasurement(t *testing.T) {
	model, _, _ := learnt(t, smallSweep)
	for _, args := range [][]string{
		{"--comm", "2x8", "--sizes", "2K"},
		{"--comm", "2x8", "--sizes", "1G"},
		{"--comm", "2x8", "--sizes", "2M", "--reg-buff", "1"},
		{"--comm", "2x8", "--sizes", "2M", "--pipe-ops", "2"},
		{"--comm", "4x8", "--sizes", "2M"},
	} {
		all, notes := shown(t, append(args, "--model", model)...)
		for _, o := range all {
			if o.Known != "cost model" || o.CostModel != "NCCL 2.30.7's estimates for HGX H100" {
				t.Errorf("%v: %+v", args, o)
			}
		}
		if !strings.Contains(notes,
			"note: NCCL's default, where it was not measured, is taken from NCCL 2.30.7's estimates for HGX H100; "+
				"it is not known whether this machine is one") {
			t.Errorf("%v: %s", args, notes)
		}
	}
	// A model that is not for this machine does not tell what NCCL chooses on it.
	const home, other = "../../../../configs/topo/dgx-h100.xml", "../../../../configs/topo/dgx-a100.xml"
	elsewhere, _, _ := learnt(t, smallSweep, "--topo", home)
	for machine, by := range map[string]string{home: "measurement", other: "cost model"} {
		all, _ := shown(t, "--model", elsewhere, "--topo", machine, "--comm", "2x8", "--sizes", "2M")
		if o := all[2<<20]; string(o.Known) != by {
			t.Errorf("on %s: %+v", machine, o)
		}
	}
}
