package docs

import (
	"encoding/csv"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// The folders of what ran on GPUs. Other pages repeat some of the figures.
const (
	h100 = "measured/h100-one-gpu"
	h200 = "measured/h200-one-gpu"
)

// gpuPage is the page of such a folder.
func gpuPage(folder string) string { return "docs/" + folder + "/README.md" }

// gpuFile reads a file of such a folder.
func gpuFile(t *testing.T, folder, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// gpuRows reads a CSV file of such a folder. A row has a field for each column, by name.
func gpuRows(t *testing.T, folder, name string) (rows []map[string]string) {
	t.Helper()
	reader := csv.NewReader(strings.NewReader(string(gpuFile(t, folder, name))))
	reader.Comment = '#'
	all, err := reader.ReadAll()
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

// gpuSamples reads the times of such a folder.
func gpuSamples(t *testing.T, folder, name string) []bench.Sample {
	t.Helper()
	read, err := testlib.Measurements(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return read.Samples
}

// tried counts the configurations of a sweep.
func tried(samples []bench.Sample) int {
	configs := map[nccl.Config]bool{}
	for _, s := range samples {
		if s.Selection == bench.SelectionForced {
			configs[s.Config] = true
		}
	}
	return len(configs)
}

// compared reads what a comparison found, and fails unless that is the verdict.
func compared(t *testing.T, folder, verdict string) (found trial.Conclusion) {
	t.Helper()
	_, read, err := trial.Read(verdict, gpuFile(t, folder, "comparison-"+verdict+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if found = *read; !strings.HasSuffix(found.Verdict(), verdict) {
		t.Errorf("%s/comparison-%s.json: %s", folder, verdict, found.Verdict())
	}
	return found
}

// evidence reads what a job learned.
func evidence(t *testing.T, folder string) (e trial.Evidence) {
	t.Helper()
	read, _, err := trial.Read("evidence", gpuFile(t, folder, "learn/evidence.json"))
	if err != nil {
		t.Fatal(err)
	}
	read.Estimate() // as tunefit learn does: what a job wrote rests on the estimate of its day
	return *read
}

// decideGPU is what a policy of the H100's folder decides of an AllReduce; without a name, what NCCL chooses by itself.
func decideGPU(t *testing.T, name string, ranks int, version nccl.Version, bytes uint64) policy.Answer {
	t.Helper()
	doc, err := topo.ReadFile(filepath.Join(h100, "topology.xml"))
	if err != nil {
		t.Fatal(err)
	}
	of, err := channels.Tune(doc, channels.TuneOptions{Settings: topo.Settings{NCCL: version.Rules()}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	var rows *policy.Policy
	if name != "" {
		if rows, err = policy.ReadCSV(name, gpuFile(t, h100, name)); err != nil {
			t.Fatal(err)
		}
	}
	table := of[0].Tuning.Table(nccl.CollAllReduce, int64(bytes), 1)
	comm := policy.Comm{Comm: nccl.Comm{Nodes: 1, Ranks: ranks}, NCCL: nccl.Only(version)}
	return policy.NewEngine(rows, nil, nil).For(comm).Decide(policy.Query{
		Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: bytes}, PipeOps: 1, Costs: table.Costs()})
}

// Every call ran by the row that decides it, and without a tuner by what is NCCL's choice on that machine.
func TestGPUDecisions(t *testing.T) {
	calls := map[string]int{}
	for _, row := range gpuRows(t, h100, "decisions.csv") {
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
	quoted(t, fmt.Sprintf("%d calls", one), gpuPage(h100), "docs/dev/TESTED.md")
}

// What the sweep proved, and how near that is to the best of all configurations.
func TestGPUSweep(t *testing.T) {
	grid := gpuSamples(t, h100, "grid.csv")
	const version = 23007
	var gains []string
	for _, p := range regexp.MustCompile(`(?m)^ +(\d+)MiB +(\S+) +(\S+) +\S+ +\S+ +(\S+) \[(\S+),(\S+)\] (\S+)`).
		FindAllStringSubmatch(string(gpuFile(t, h100, "proof.txt")), -1) {
		bytes := uint64(float(t, p[1])) << 20
		byDefault := decideGPU(t, "", 4, version, bytes)
		decided := decideGPU(t, "policy.csv", 4, version, bytes)
		byNCCL, ran, best, others := math.Inf(1), math.NaN(), math.Inf(1), 0
		for _, s := range grid {
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
			quoted(t, fmt.Sprintf("Later %d configurations", others), gpuPage(h100))
			quoted(t, fmt.Sprintf("| %s MiB | %s: %s us | %s with %d channels: %s us | %s (%s .. %s): faster | %.3f |",
				p[1], byDefault.Cell, p[2], decided.Cell, decided.Channels, p[3], p[4], p[5], p[6], ran/best), gpuPage(h100))
		case bytes >= 32<<20 && byNCCL > best:
			t.Errorf("%s MiB: NCCL's choice took %g us, the best %g us", p[1], byNCCL, best)
		}
	}
	if len(gains) != 2 {
		t.Errorf("gains: %q", gains)
	}
	quoted(t, strings.Join(gains, " and ")+" %", "docs/dev/TESTED.md", "docs/dev/MODEL.md")

	quoted(t, fmt.Sprintf("%d of 42 configurations", tried(gpuSamples(t, h100, "sweep.csv"))), gpuPage(h100))
}

// A job's comparison says what its policies did, and what the steps of loops without it say, too.
func TestGPUSteps(t *testing.T) {
	medians := map[string]string{}
	for _, row := range gpuRows(t, h100, "steps.csv") {
		medians[strings.TrimSpace(row["what"]+" "+row["tuner"]+" "+row["pair"])] = row["p50_us"]
		if row["tuner"] == "two edits" && row["what"] == "step" {
			quoted(t, fmt.Sprintf("%.1f ms, the median %.2f ms", float(t, row["max_us"])/1e3, float(t, row["p50_us"])/1e3),
				gpuPage(h100))
			const seconds, callsAStep = 14, 12
			calls := int(float(t, row["count"])) * callsAStep / seconds
			quoted(t, fmt.Sprintf("%d %d00 calls a second", calls/1000, calls%1000/100), gpuPage(h100), "docs/dev/TESTED.md")
		}
	}
	var direct []any
	mean := 0.
	for _, pair := range []string{" 1", " 2", " 3"} {
		ratio := float(t, medians["step c.csv"+pair]) / float(t, medians["step none"+pair])
		direct, mean = append(direct, percent(ratio)), mean+ratio/3
	}
	quoted(t, fmt.Sprintf("%s, %s and %s %%", direct...), gpuPage(h100), "docs/dev/EVIDENCE.md", "docs/dev/TESTED.md")
	quoted(t, "the mean of the three, "+percent(mean)+" %", gpuPage(h100))
	quoted(t, "some "+percent(mean)+" %", "docs/dev/EVIDENCE.md", "docs/dev/TESTED.md", gpuPage(h100))
	for tuner, said := range map[string]string{"none": "%s and %s us without a plugin", "loaded": "%s and %s us with it",
		"loaded, recorder on": "%s and %s us with the recorder on"} {
		quoted(t, fmt.Sprintf(said, medians["enqueue "+tuner+" 1"], medians["enqueue "+tuner+" 2"]), gpuPage(h100))
	}
	for _, verdict := range []string{"faster", "slower"} {
		found := compared(t, h100, verdict)
		quoted(t, strings.TrimPrefix(found.Result.String(), "step time "), "docs/dev/EVIDENCE.md", "docs/dev/TESTED.md")
	}
}

// What a job learned before it hung.
func TestGPULearning(t *testing.T) {
	e := evidence(t, h100)
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
		FindAllStringSubmatch(string(gpuFile(t, h100, "learn/log.txt")), -1) {
		if changes[line[2]] == nil {
			changes[line[2]] = map[string]bool{}
		}
		changes[line[2]][line[1]] = true
	}
	if len(changes["aborted"]) != 1 {
		t.Errorf("changes: %v", changes)
	}
	// The last one is where the job hung.
	quoted(t, fmt.Sprintf("%d changes, %d became active", len(changes["proposed"])-1, len(changes["in force"])),
		gpuPage(h100), "docs/dev/TESTED.md")
}

// The first launch of a kernel that needs more stack hangs ranks that share a context.
func TestGPUFirstLaunch(t *testing.T) {
	first := map[string]string{"reduce": "Reduce: needs no more stack", "bcast": "Broadcast: 16 bytes more",
		"small": "AllReduce by tree/ll: 120 bytes more"}
	cameOut := map[string]string{"ok": "ran", "HANG": "hung"}
	runs := regexp.MustCompile(`== (.*)firstuse 4 (\w+) 5000\n\w+ skew 5000 us: (ok|HANG)`).
		FindAllStringSubmatch(string(gpuFile(t, h200, "firstuse.txt")), -1)
	for _, run := range runs {
		tuner, stack := "none", "unset"
		if strings.Contains(run[1], "NCCL_TUNER_CONFIG_FILE=") {
			tuner = "policy"
		}
		if strings.Contains(run[1], "NCCL_SET_STACK_SIZE=1") {
			stack = "1"
		}
		quoted(t, fmt.Sprintf("| %s | %s | %s | %s |", first[run[2]], tuner, stack, cameOut[run[3]]), gpuPage(h200))
	}
	if len(runs) != 4 {
		t.Errorf("%d runs, want 4", len(runs))
	}
}

// AllGather and ReduceScatter ran as asked, except the channels that are left to NCCL.
func TestGPUCollectives(t *testing.T) {
	calls := 0
	of := map[string]string{} // an AllGather's channels, by what does not ask for them
	for _, row := range gpuRows(t, h200, "choices.csv") {
		if row["asked_protocol"] == "" {
			continue
		}
		calls += int(float(t, row["calls"]))
		if row["algorithm"] != "ring" || row["protocol"] != row["asked_protocol"] {
			t.Errorf("%v: not obeyed", row)
		}
		used, asked := float(t, row["channels"]), float(t, row["asked_channels"])
		if row["collective"] == "reducescatter" {
			if used > asked || float(t, row["bytes"]) >= 64<<10 && used < asked {
				t.Errorf("%v: want %g channels", row, asked)
			}
			continue
		}
		call := row["protocol"] + " " + row["bytes"]
		if before, ok := of[call]; ok && before != row["channels"] {
			t.Errorf("%v: and %s channels where another number was asked for", row, before)
		}
		of[call] = row["channels"]
	}
	quoted(t, fmt.Sprintf("all of %d calls", calls), gpuPage(h200), "docs/dev/TESTED.md")
}

// A row decides the calls whose own configuration leaves what it asks for, and NCCL the others, as without a policy.
func TestGPUCallConfig(t *testing.T) {
	byRow, others := 0, 0
	for _, row := range gpuRows(t, h200, "callconfig.csv") {
		with, channels, _ := strings.Cut(strings.TrimSuffix(row["with_policy"], " channels"), " ")
		switch {
		case with == "ring/ll128":
			byRow++
		case row["with_policy"] == row["without_policy"]:
			others++
		default:
			t.Errorf("%v: neither the row's nor NCCL's choice", row)
		}
		switch {
		case row["min_ctas"] != "":
			quoted(t, fmt.Sprintf("`minCTAs` of %s gave %s channels", row["min_ctas"], channels), "docs/dev/NCCL.md")
		case row["max_ctas"] != "" && channels != row["max_ctas"]:
			t.Errorf("%v: want %s channels", row, row["max_ctas"])
		case row["max_ctas"] == "" && with == "ring/ll128":
			quoted(t, fmt.Sprintf("a row with 12 channels ran with %s", channels), "docs/dev/NCCL.md")
		}
	}
	quoted(t, fmt.Sprintf("decides the %d that leave ring/ll128; the other %d end as without", byRow, others),
		gpuPage(h200))
}

// NCCL's dump of the machine has the fingerprint that was detected.
func TestGPUFingerprint(t *testing.T) {
	doc, err := topo.ReadFile(filepath.Join(h200, "topology.xml"))
	if err != nil {
		t.Fatal(err)
	}
	system, err := topo.Build(doc, topo.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	quoted(t, fmt.Sprintf("one fingerprint, %s.", system.Fingerprint()), gpuPage(h200))
}

// What a sweep's row is worth against all configurations.
func TestGPUGrid(t *testing.T) {
	row := gpuRows(t, h200, "policy.csv")[0]
	grid := gpuSamples(t, h200, "grid.csv")
	for bytes := uint64(1 << 20); bytes <= 64<<20; bytes *= 2 {
		var alone []float64
		var cell nccl.Cell
		var best, ran bench.Sample
		configs := 0
		for _, s := range grid {
			switch {
			case s.Bytes != bytes:
				continue
			case s.Selection == bench.SelectionDefault:
				alone, cell = append(alone, s.Micros), s.Cell
				continue
			}
			configs++
			if best.Micros == 0 || s.Micros < best.Micros {
				best = s
			}
			if s.Cell.String() == row["algorithm"]+"/"+row["protocol"] && strconv.Itoa(s.Channels) == row["channels"] {
				ran = s
			}
		}
		slices.Sort(alone)
		median := alone[len(alone)/2]
		took, with := median, "the same"
		if size := float64(bytes); size >= float(t, row["min_bytes"]) && size <= float(t, row["max_bytes"]) {
			took, with = ran.Micros, fmt.Sprintf("%.1f us", ran.Micros)
		}
		quoted(t, fmt.Sprintf("| %d MiB | %s: %.1f us | %s | %s: %.1f us | %.3f |", bytes>>20, cell, median, with,
			best.Cell, best.Micros, took/best.Micros), gpuPage(h200))
		if bytes == 1<<20 {
			quoted(t, fmt.Sprintf("took %.1f to %.1f us", min(best.Micros, alone[0]), alone[len(alone)-1]), gpuPage(h200))
		}
		if configs != 30 || len(alone) != 5 {
			t.Errorf("%d MiB: %d configurations, and %d times of the default", bytes>>20, configs, len(alone))
		}
	}
	sweep := gpuSamples(t, h200, "sweep.csv")
	quoted(t, fmt.Sprintf("%d of 30 configurations", tried(sweep)), gpuPage(h200))
	for _, s := range sweep {
		if s.Bytes == 2<<20 && s.Selection == bench.SelectionForced && s.Cell.String() == "ring/ll" {
			quoted(t, fmt.Sprintf("At 2 MiB the best took %.1f us in the sweep", s.Micros), gpuPage(h200))
		}
	}
}

// What a job learned and a comparison found, against direct runs.
func TestGPUDirect(t *testing.T) {
	e := evidence(t, h200)
	held, rows := 0, gpuRows(t, h200, "direct.csv")
	fastest, slowest := math.Inf(1), 0.
	for _, row := range rows {
		before, after := float(t, row["before_us"]), float(t, row["after_us"])
		fastest, slowest = min(fastest, before, after), max(slowest, before, after)
		ratio := 2 * float(t, row["with_us"]) / (before + after)
		arm := learned(t, &e, row)
		low, high := 1+arm.Effect-trial.Surely*arm.Error, 1+arm.Effect+trial.Surely*arm.Error
		if low <= ratio && ratio <= high {
			held++
			if arm.Faster {
				quoted(t, percent(ratio)+" %", gpuPage(h200), "docs/dev/EVIDENCE.md", "docs/dev/TESTED.md")
			}
			continue
		}
		write := percent
		if math.Min(math.Abs(ratio-low), math.Abs(ratio-high)) < 0.001 {
			write = func(ratio float64) string { return fmt.Sprintf("%+.2f", 100*(ratio-1)) }
		}
		quoted(t, fmt.Sprintf("| %s %s %s | %s %% (%s .. %s) | %s %% |", row["collective"],
			nccl.FormatBytes(uint64(float(t, row["bytes"]))), arm.Config, write(1+arm.Effect), write(low), write(high),
			write(ratio)), gpuPage(h200))
	}
	quoted(t, fmt.Sprintf("%d of %d intervals", held, len(rows)), gpuPage(h200), "docs/dev/EVIDENCE.md", "docs/dev/TESTED.md")
	quoted(t, fmt.Sprintf("%.1f to %.1f us", fastest, slowest), gpuPage(h200), "docs/dev/EVIDENCE.md")
	found := compared(t, h200, "faster")
	quoted(t, strings.TrimPrefix(found.Result.String(), "step time "), gpuPage(h200), "docs/dev/EVIDENCE.md", "docs/dev/TESTED.md")
}

// learned is the candidate that a row of direct.csv measured.
func learned(t *testing.T, e *trial.Evidence, row map[string]string) trial.Arm {
	t.Helper()
	for _, f := range e.Factors {
		for _, arm := range f.Arms {
			if f.Coll.String() == row["collective"] && strconv.FormatUint(f.Min, 10) == row["bytes"] &&
				arm.Cell.String() == row["algorithm"]+"/"+row["protocol"] &&
				strconv.Itoa(arm.Channels) == row["channels"] {
				return arm
			}
		}
	}
	t.Fatalf("no job has learned of %v", row)
	return trial.Arm{}
}

// Nothing that was published names a machine or a person.
func TestGPUFilesNameNobody(t *testing.T) {
	for _, folder := range []string{h100, h200} {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
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
}
