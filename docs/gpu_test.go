package docs

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// oneGPU is the folder of what ran on a GPU, gpuPage its page. Other pages repeat some of the figures.
const (
	oneGPU  = "measured/h100-one-gpu"
	gpuPage = "docs/" + oneGPU + "/README.md"
)

// gpuFile reads a file of that folder.
func gpuFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(oneGPU, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// gpuRows reads a CSV file of that folder. A row has a field for each column, by name.
func gpuRows(t *testing.T, name string) (rows []map[string]string) {
	t.Helper()
	all, err := csv.NewReader(strings.NewReader(string(gpuFile(t, name)))).ReadAll()
	if err != nil || len(all) < 2 {
		t.Fatalf("%s: %d lines (%v)", name, len(all), err)
	}
	for _, fields := range all[1:] {
		row := map[string]string{}
		for i, field := range fields {
			row[all[0][i]] = field
		}
		rows = append(rows, row)
	}
	return rows
}

// float reads a number that a file has.
func float(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// quoted fails for each page that does not say what was found.
func quoted(t *testing.T, found string, inPages ...string) {
	t.Helper()
	all := pages(t)
	for _, page := range inPages {
		if !strings.Contains(all[page], found) {
			t.Errorf("%s does not say %q", page, found)
		}
	}
}

// percent is a ratio of two times as pages write it: -9.9 for 0.901.
func percent(ratio float64) string { return fmt.Sprintf("%+.1f", 100*(ratio-1)) }

// readGPU reads a policy of that folder.
func readGPU(t *testing.T, name string) *policy.Policy {
	t.Helper()
	rows, err := policy.ReadCSV(name, gpuFile(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// decideGPU is what a policy of that folder decides of an AllReduce; without a name, what NCCL chooses by itself.
func decideGPU(t *testing.T, name string, ranks int, version nccl.Version, bytes uint64) policy.Answer {
	t.Helper()
	doc, err := topo.ReadFile(filepath.Join(oneGPU, "topology.xml"))
	if err != nil {
		t.Fatal(err)
	}
	of, err := channels.Tune(doc, channels.TuneOptions{Settings: topo.Settings{NCCL: version.Rules()}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	var rows *policy.Policy
	if name != "" {
		rows = readGPU(t, name)
	}
	table := of[0].Tuning.Table(nccl.CollAllReduce, int64(bytes), 1)
	comm := policy.Comm{Comm: nccl.Comm{Nodes: 1, Ranks: ranks}, NCCL: nccl.Only(version)}
	return policy.NewEngine(rows, nil, nil).For(comm).Decide(policy.Query{
		Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: bytes}, PipeOps: 1, Costs: table.Costs()})
}

// Every call ran by the row that decides it, and without a tuner by what is NCCL's choice on that machine.
func TestGPUDecisions(t *testing.T) {
	calls := map[string]int{}
	for _, row := range gpuRows(t, "decisions.csv") {
		number := func(column string) int { return int(float(t, row[column])) }
		version, err := nccl.ParseVersion(row["nccl"])
		if err != nil {
			t.Fatal(err)
		}
		ranks, bytes, used := number("ranks"), number("size_bytes"), number("channels")
		want := decideGPU(t, row["policy"], ranks, version, uint64(bytes))
		if got := row["algorithm"] + "/" + row["protocol"]; got != want.Cell.String() {
			t.Errorf("%v: want %s", row, want.Cell)
		}
		most := min(want.Channels, 96/ranks) // as NCCL_MAX_NCHANNELS was set
		if want.By == policy.ByRow && (used > most || bytes >= 64<<10 && used < most) {
			t.Errorf("%v: want %d channels", row, most)
		}
		calls[row["policy"]+" with NCCL "+row["nccl"]] += number("calls")
	}
	one := calls["a.csv with NCCL 2.30.7"]
	for run, n := range calls {
		if n != one || len(calls) != 4 {
			t.Errorf("%s: %d calls, want %d; %d runs, want 4", run, n, one, len(calls))
		}
	}
	quoted(t, fmt.Sprintf("%d calls", one), gpuPage, "docs/dev/TESTED.md")
}

// What the sweep proved, and how near that is to the best of all configurations.
func TestGPUSweep(t *testing.T) {
	grid, err := bench.ReadFile(filepath.Join(oneGPU, "grid.csv"), bench.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const version = 23007
	var gains []string
	for _, p := range regexp.MustCompile(`(?m)^ +(\d+)MiB +(\S+) +(\S+) +\S+ +\S+ +(\S+) \[(\S+),(\S+)\] (\S+)`).
		FindAllStringSubmatch(string(gpuFile(t, "proof.txt")), -1) {
		bytes := uint64(float(t, p[1])) << 20
		byDefault := decideGPU(t, "", 4, version, bytes)
		decided := decideGPU(t, "policy.csv", 4, version, bytes)
		byNCCL, ran, best, others := math.Inf(1), math.NaN(), math.Inf(1), 0
		for _, s := range grid.Samples {
			switch {
			case s.Bytes != bytes:
			case s.Selection == bench.SelectionDefault:
				byNCCL = min(byNCCL, s.Micros)
			default:
				best, others = min(best, s.Micros), others+1
				if s.Config == decided.Config {
					ran = s.Micros
				}
			}
		}
		switch {
		case (p[7] == "faster") != (decided.By == policy.ByRow):
			t.Errorf("%s MiB: %s, and the policy decides %+v", p[1], p[7], decided)
		case p[7] == "faster":
			gains = append(gains, percent(float(t, p[4])))
			quoted(t, fmt.Sprintf("Later %d configurations", others), gpuPage)
			quoted(t, fmt.Sprintf("| %s MiB | %s: %s us | %s with %d channels: %s us | %s (%s .. %s): faster | %.3f |",
				p[1], byDefault.Cell, p[2], decided.Cell, decided.Channels, p[3], p[4], p[5], p[6], ran/best), gpuPage)
		case bytes >= 32<<20 && byNCCL > best:
			t.Errorf("%s MiB: NCCL's choice took %g us, the best %g us", p[1], byNCCL, best)
		}
	}
	if len(gains) != 2 {
		t.Errorf("gains: %q", gains)
	}
	quoted(t, strings.Join(gains, " and ")+" %", "docs/dev/TESTED.md", "docs/dev/MODEL.md")

	tried := map[nccl.Config]bool{}
	sweep, err := bench.ReadFile(filepath.Join(oneGPU, "sweep.csv"), bench.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sweep.Samples {
		if s.Selection == bench.SelectionForced {
			tried[s.Config] = true
		}
	}
	quoted(t, fmt.Sprintf("%d of 42 configurations", len(tried)), gpuPage)
}

// A job's comparison says what its policies did, and what the steps of loops without it say, too.
func TestGPUSteps(t *testing.T) {
	medians := map[string]string{}
	for _, row := range gpuRows(t, "steps.csv") {
		medians[strings.TrimSpace(row["what"]+" "+row["tuner"]+" "+row["pair"])] = row["p50_us"]
		if row["tuner"] == "two edits" && row["what"] == "step" {
			quoted(t, fmt.Sprintf("%.1f ms, the median %.2f ms", float(t, row["max_us"])/1e3, float(t, row["p50_us"])/1e3),
				gpuPage)
			const seconds, callsAStep = 14, 12
			calls := int(float(t, row["count"])) * callsAStep / seconds
			quoted(t, fmt.Sprintf("%d %d00 calls a second", calls/1000, calls%1000/100), gpuPage, "docs/dev/TESTED.md")
		}
	}
	var direct []any
	mean := 0.
	for _, pair := range []string{" 1", " 2", " 3"} {
		ratio := float(t, medians["step c.csv"+pair]) / float(t, medians["step none"+pair])
		direct, mean = append(direct, percent(ratio)), mean+ratio/3
	}
	quoted(t, fmt.Sprintf("%s, %s and %s %%", direct...), gpuPage, "docs/dev/EVIDENCE.md", "docs/dev/TESTED.md")
	quoted(t, "the mean of the three, "+percent(mean)+" %", gpuPage)
	quoted(t, "some "+percent(mean)+" %", "docs/dev/EVIDENCE.md", "docs/dev/TESTED.md", gpuPage)
	for tuner, said := range map[string]string{"none": "%s and %s us without a plugin", "loaded": "%s and %s us with it",
		"loaded, recorder on": "%s and %s us with the recorder on"} {
		quoted(t, fmt.Sprintf(said, medians["enqueue "+tuner+" 1"], medians["enqueue "+tuner+" 2"]), gpuPage)
	}
	for _, verdict := range []string{"faster", "slower"} {
		var found trial.Conclusion
		if err := json.Unmarshal(gpuFile(t, "comparison-"+verdict+".json"), &found); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(found.Verdict(), verdict) {
			t.Errorf("comparison-%s.json: %s", verdict, found.Verdict())
		}
		quoted(t, strings.TrimPrefix(found.Result.String(), "step time "), "docs/dev/EVIDENCE.md", "docs/dev/TESTED.md")
	}
}

// What a job learned before it hung.
func TestGPULearning(t *testing.T) {
	var e trial.Evidence
	if err := json.Unmarshal(gpuFile(t, "learn/evidence.json"), &e); err != nil {
		t.Fatal(err)
	}
	if err := e.Check(); err != nil {
		t.Fatal(err)
	}
	short := 0
	for i, b := range e.Runs[0].Blocks {
		if b.Steps == 5 && i >= 4 {
			short++
		}
	}
	if short != 5 || e.Runs[0].Blocks[3].Arms[0] != 1 || e.Factors[0].Arms[1].Blocks != 1 {
		t.Errorf("%d blocks of five steps after the one that had ring/simple: %+v", short, e.Runs[0].Blocks)
	}
	changes := map[string]map[string]bool{}
	for _, line := range regexp.MustCompile(`change (\d+): (?:version \w+ is )?(proposed|in force|aborted)`).
		FindAllStringSubmatch(string(gpuFile(t, "learn/log.txt")), -1) {
		if changes[line[2]] == nil {
			changes[line[2]] = map[string]bool{}
		}
		changes[line[2]][line[1]] = true
	}
	if len(changes["aborted"]) != 1 {
		t.Errorf("changes: %v", changes)
	}
	// The last one is where the job hung.
	quoted(t, fmt.Sprintf("%d changes, %d came into force", len(changes["proposed"])-1, len(changes["in force"])),
		gpuPage, "docs/dev/TESTED.md")
}

// Nothing that was published names a machine or a person.
func TestGPUFilesNameNobody(t *testing.T) {
	err := filepath.WalkDir(oneGPU, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) == ".md" {
			return err
		}
		text, err := os.ReadFile(path)
		if found := private.FindString(string(text)); found != "" {
			t.Errorf("%s: %q may name a machine or a person", path, found)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
