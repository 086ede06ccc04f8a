package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

const learnSamples = "../../docs/testdata/learn"

func TestLearn(t *testing.T) {
	out, said := tunefit(t, cli.ExitOK, "learn", filepath.Join(learnSamples, "job1"))
	want := "31 blocks of 8 s; step 812 ms. allreduce 64MiB ring/ll128 instead of ring/simple: -2.1 % of the step " +
		"(-2.8 .. -1.4). 1 of 8 shapes settled. Lost so far: 4 steps.\n\n" +
		"2x8 dp, NCCL 2.30.7, machine 5d1f0c2a9be47360, 2026-11-02 14:00 to 2026-11-02 14:09: trying\n"
	if !strings.HasPrefix(out, want) || said != "" {
		t.Errorf("%s%s\nwant\n%s", out, said, want)
	}
	for _, line := range []string{
		"allreduce 64MiB 24 ring/simple - - - 7 NCCL's choice",
		"ring/ll128 -2.1 % (-2.8 .. -1.4) -17.1 5 faster",
		"tree/simple +1.0 % (+0.3 .. +1.6) +7.8 6 slower: dropped",
		"ring/simple +0.8 % (+0.1 .. +1.5) +6.6 13 open",
		"not tried: allgather in groups that NCCL decides together",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), line) {
			t.Errorf("no %q in\n%s", line, out)
		}
	}
	page, err := os.ReadFile("../../docs/LEARN.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) { // what the page shows is what is printed
		line, shown := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		if shown && !strings.HasPrefix(line, "export ") && !strings.Contains(out, line) {
			t.Errorf("no %q in\n%s", line, out)
		}
	}
	out, _ = tunefit(t, cli.ExitOK, "learn", filepath.Join(learnSamples, "job2"))
	for _, want := range []string{"2x8 dp: 140 blocks", "1x8 tp: 60 blocks", "Nothing makes steps shorter for sure.",
		"Gained so far: 12 steps.", "proven; the rows are in learned.csv: step time -2.1 % (-2.5 .. -1.6): faster",
		": ended\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// What is known of an arm, in words.
func TestLearnVerdicts(t *testing.T) {
	dir := t.TempDir()
	evidence(t, dir, "a.json", func(e *trial.Evidence) {
		e.State, e.Result = trial.Trying, nil
		f := &e.Factors[0]
		f.Settled = false
		e.Factors = append(e.Factors, trial.Factor{Coll: nccl.CollBroadcast, Arms: slices.Clone(f.Arms)})
		f.Arms = append(f.Arms, trial.Arm{Config: config("tree/ll"), Blocks: 9, Error: 0.001, Dropped: "alike"},
			trial.Arm{Config: config("ring/ll"), Blocks: 9, Effect: -0.01, Error: 0.001, Dropped: "worse"},
			trial.Arm{Config: config("ring/ll128/8")})
		e.Factors = append(e.Factors, trial.Factor{Coll: nccl.CollReduce, Arms: slices.Clone(f.Arms)})
		e.Factors[2].Arms[0].Blocks = 3
	})
	out, _ := tunefit(t, cli.ExitOK, "learn", dir)
	for _, want := range []string{"9 alike: dropped\n",
		"9 not the fastest: dropped\n", "ring/ll128 8 ch - - - 0 not tried yet\n",
		"3 NCCL's choice, hardly tried: the others' figures may all be off by as much\n"} {
		if !strings.Contains(regexp.MustCompile(` +`).ReplaceAllString(out, " "), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// Communicators of one size that try different things each have a line and a table.
func TestLearnSeveral(t *testing.T) {
	dir := t.TempDir()
	for i, blocks := range []int{30, 31} {
		evidence(t, dir, fmt.Sprintf("%d.json", i), func(e *trial.Evidence) {
			e.Blocks, e.Factors[0].Coll = blocks, nccl.Coll(i)
		})
	}
	out, _ := tunefit(t, cli.ExitOK, "learn", dir)
	if strings.Count(out, " blocks of 16 s") != 2 || strings.Count(out, "\ncollective ") != 2 ||
		!strings.HasPrefix(out, "2x8: 31 blocks") {
		t.Error(out)
	}
}

// A job that has just begun has nothing to show.
func TestLearnNothingYet(t *testing.T) {
	dir := t.TempDir()
	evidence(t, dir, "a.json", func(e *trial.Evidence) {
		e.State, e.Blocks, e.Steps, e.StepSeconds, e.Factors, e.NCCL = trial.Trying, 0, 0, 0, nil, ""
		e.Result = nil
	})
	out, _ := tunefit(t, cli.ExitOK, "learn", dir)
	want := "Nothing has been tried yet.\n\n2x8, NCCL not known, machine 5d1f0c2a9be47360, 2026-11-02 14:00 to " +
		"2026-11-02 15:00: trying\n"
	if out != want {
		t.Errorf("%q, want %q", out, want)
	}
	tunefit(t, cli.ExitOK, "learn", dir, "--report", filepath.Join(dir, "page.html"))
}

func TestLearnJSON(t *testing.T) {
	out, _ := tunefit(t, cli.ExitOK, "learn", filepath.Join(learnSamples, "job2"), "--json")
	var all []learned
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != 2 || all[0].Ranks != 16 ||
		!strings.HasSuffix(all[0].File, "learning-2n-16r.json") || math.Abs(all[0].Factors[0].Arms[1].Effect+0.0211) > 1e-4 {
		t.Errorf("%v: %s", err, out)
	}
}

// The page is whole in itself, and what files say is text in it.
func TestLearnPage(t *testing.T) {
	dir, page := t.TempDir(), filepath.Join(t.TempDir(), "page.html")
	evidence(t, dir, "a.json", func(e *trial.Evidence) { e.Name = "<script>x</script>" })
	tunefit(t, cli.ExitOK, "learn", dir, "--report", page)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"default-src 'none'", "&lt;script&gt;x",
		"<svg role=\"img\" aria-label=\"-2.0 % (-2.2 .. -1.8)\"",
		`cx="4.54`, "ring/ll128", "NCCL&#39;s choice", "faster"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text[len(text)-3000:])
		}
	}
	evidence(t, dir, "a.json", func(e *trial.Evidence) { best(e).Blocks = 0 }) // it has an axis, too
	tunefit(t, cli.ExitOK, "learn", dir, "--report", page, "--force")
	untried, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, untried...)
	for _, not := range []string{"<script", "http://", "https://", "ZgotmplZ", "NaN"} {
		if strings.Contains(string(text), not) {
			t.Errorf("%q in the page", not)
		}
	}
	_, said := tunefit(t, cli.ExitFailed, "learn", dir, "--report", page)
	if !strings.Contains(said, "--force overwrites") {
		t.Error(said)
	}
}

func TestLearnBadFiles(t *testing.T) {
	for _, c := range []struct {
		name, text string
		code       int
		want       []string
	}{
		{"a.txt", "", cli.ExitFailed, []string{"no job has left what it learned here", "NCCL_TUNER_LEARN="}},
		{"a.json", "{", cli.ExitOK, []string{"left out: ", "a.json is JSON, but nothing"}},
		{"a.json", `{"step_calls":1,"block_seconds":1}`, cli.ExitOK, []string{"a.json is what a job found out about its " +
			"policy (needed: what a job has learned)"}},
		{"a.json", "[1]", cli.ExitFailed, []string{"a.json:1:1: array where a JSON object is needed"}},
		{"a.json", "", cli.ExitFailed, []string{"a.json:1:1: unexpected end", "remove it"}},
		{"a.json", `{"format":"nccl-tuner-go learning","version":3,`, cli.ExitFailed,
			[]string{"a.json:1:47: unexpected end"}},
		{"a.json", `{"format":"nccl-tuner-go learning","version":1}`, cli.ExitFailed, []string{"version is 1 (known: 3)"}},
		{"a.json", `{"format":"nccl-tuner-go learning","version":3}`, cli.ExitFailed, []string{"0 ranks on 0 nodes"}},
		{"a.json", `{"format":"nccl-tuner-go learning","version":3,"nodes":1,"ranks":8,"nccl":"2.x"}`,
			cli.ExitFailed, []string{`a.json: "2.x" is no range of releases`}},
		{"a.json", `{"format":"nccl-tuner-go learning","factors":[{"collective":"allredcue"}]}`, cli.ExitFailed,
			[]string{`a.json: unknown collective "allredcue" (did you mean "allreduce"`}},
		{"a.json", `{"format":"nccl-tuner-go learning","version":3,"nodes":1,"ranks":8,"factors":[{"min_bytes":4}]}`,
			cli.ExitFailed, []string{"a.json: factor 1: 4 to 0 bytes, 0 arms"}},
		{"a.json", `{"format":"nccl-tuner-go learning","version":3,"nodes":1,"ranks":8,"runs":[{"comm":"x-8","blocks":[{"arms":[0]}]}]}`,
			cli.ExitFailed, []string{"a.json: block 1 of \"x-8\": arms [0], mean 0"}},
		{"a.json", `{"format":"nccl-tuner-go learning","factors":[{"arms":[{"algorithm":"rign","protocol":"ll"}]}]}`,
			cli.ExitFailed, []string{`a.json: unknown algorithm "rign"`}},
	} {
		dir := t.TempDir()
		if c.code == cli.ExitOK || c.name == "a.json" { // the others are shown
			evidence(t, dir, "good.json", func(*trial.Evidence) {})
		}
		if err := os.WriteFile(filepath.Join(dir, c.name), []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		out, said := tunefit(t, c.code, "learn", dir)
		if m := lacks(said, c.want...); len(m) > 0 {
			t.Errorf("%q: no %q in %s", c.text, m, said)
		}
		if c.name == "a.json" && !strings.Contains(out, "allreduce 64MiB ring/ll128") {
			t.Errorf("%q: the good file is not shown:\n%s", c.text, out)
		}
		if c.name == "a.json" && c.code != cli.ExitOK { // and nothing comes of a damaged one
			all := filepath.Join(t.TempDir(), "all")
			tunefit(t, cli.ExitFailed, "learn", "merge", dir, "-o", all)
			if _, err := os.Stat(all); err == nil {
				t.Errorf("%q: something was written", c.text)
			}
		}
	}
	tunefit(t, cli.ExitUsage, "learn")
	tunefit(t, cli.ExitFailed, "learn", filepath.Join(t.TempDir(), "nothing"))
}

func config(text string) nccl.Config {
	c, err := nccl.ParseConfig(text)
	if err != nil {
		panic(err)
	}
	return c
}

// evidence writes a file of a proven gain, changed.
func evidence(t *testing.T, dir, name string, change func(*trial.Evidence)) {
	t.Helper()
	const size = 64 << 20
	began := time.Date(2026, 11, 2, 14, 0, 0, 0, time.UTC)
	e := trial.Evidence{Format: trial.EvidenceFormat, Version: trial.EvidenceVersion, Key: dir + "/" + name,
		Comm: nccl.Comm{Nodes: 2, Ranks: 16}, NCCL: "2.30.7", Machine: "5d1f0c2a9be47360", Began: began,
		At: began.Add(time.Hour), State: trial.Learned, StepSeconds: 1, BlockSeconds: 16, Blocks: 30, Steps: 400,
		LostSteps: 2, Result: &trial.Finding{Result: trial.Result{State: trial.Precise, Pairs: 9, Mean: -0.02, Low: -0.03,
			High: -0.01}}, Factors: []trial.Factor{{Coll: nccl.CollAllReduce, Range: nccl.Range{Min: size, Max: size},
			Settled: true, Arms: []trial.Arm{{Config: config("ring/simple"), Blocks: 10, Dropped: "worse"},
				{Config: config("ring/ll128"), Effect: -0.02, Error: 0.001, Blocks: 20}}}}}
	change(&e)
	if e.State == trial.Learned {
		best(&e).Proven = true
	}
	if e.Runs == nil {
		e.Runs = []trial.Run{played(e)}
	}
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// played is a run of blocks that tell about what evidence has.
func played(e trial.Evidence) trial.Run {
	run := trial.Run{Comm: e.Key, Began: e.Began}
	dice := rand.New(rand.NewPCG(1, 2))
	for block := range e.Blocks {
		b := trial.Block{Arms: make([]int, len(e.Factors)), Mean: 1e-7 * float64(block), Variance: 1e-8, Steps: 15}
		for i, f := range e.Factors {
			k := block / (i + 1) % len(f.Arms)
			a := f.Arms[k]
			b.Arms[i] = k
			b.Mean += math.Log1p(a.Effect) + a.Error*dice.NormFloat64()*math.Sqrt(float64(e.Blocks))/2
		}
		run.Blocks = append(run.Blocks, b)
	}
	return run
}

// best is the arm that is faster in evidence as written.
func best(e *trial.Evidence) *trial.Arm { return &e.Factors[0].Arms[1] }

// Blocks of two jobs are put together, each as precise as it is, and what comes of them is whole: a job can go on from it.
func TestLearnMerge(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	evidence(t, path("1"), "a.json", func(*trial.Evidence) {})
	evidence(t, path("2"), "a.json", func(e *trial.Evidence) {
		e.State, best(e).Effect, best(e).Error, e.Blocks = trial.Trying, -0.014, 0.003, 60
		e.Factors[0].Arms = append(e.Factors[0].Arms, trial.Arm{Config: config("tree/simple"), Effect: 0.03, Error: 0.01,
			Blocks: 20})
	})
	evidence(t, path("2"), "old.json", func(e *trial.Evidence) { e.NCCL, best(e).Channels = "2.28.9", 8 })
	_, said := tunefit(t, cli.ExitOK, "learn", "merge", path("1"), path("2"), "-o", path("all"))
	if want := "wrote 2 files of evidence and 2 rows of learned.csv (tunefit learn " + path("all") + ")\n"; said != want {
		t.Errorf("%q, want %q", said, want)
	}
	all, err := readLearned(os.Stderr, path("all"))
	if err != nil || len(all) != 2 {
		t.Fatalf("%v, %+v", err, all)
	}
	e := all[0]
	if e.NCCL != "2.30.7" {
		e = all[1]
	}
	a := best(&e.Evidence)
	if math.Abs(a.Effect+0.0195) > 0.001 || a.Error < 0.0003 || a.Error > 0.0012 || a.Blocks != 35 || e.Blocks != 90 ||
		e.Steps != 90*15 || len(e.Runs) != 2 || len(e.Factors) != 1 || len(e.Factors[0].Arms) != 3 ||
		e.Factors[0].Arms[2].Dropped != "worse" || e.State != trial.Learned {
		t.Errorf("%+v", e.Factors)
	}
	rows, err := os.ReadFile(path("all/learned.csv"))
	for _, want := range []string{
		"collective,min_bytes,max_bytes,algorithm,protocol,channels,nodes,ranks,nccl\n# ",
		", 15 blocks of ring/ll128 8 ch, 2026-11-02, machine 5d1f0c2a9be47360\n" +
			"allreduce,67108864,67108864,ring,ll128,8,2,16,2.28.9\n",
		", 35 blocks of ring/ll128, 2026-11-02, machine 5d1f0c2a9be47360\n" +
			"allreduce,67108864,67108864,ring,ll128,-1,2,16,2.30.7\n",
	} {
		if !strings.Contains(string(rows), want) || err != nil {
			t.Errorf("%v: no %q in\n%s", err, want, rows)
		}
	}
	tunefit(t, cli.ExitOK, "check", path("all/learned.csv"))
	// What several directories have counts once.
	tunefit(t, cli.ExitOK, "learn", "merge", path("2"), path("all"), path("1"), "-o", path("again"))
	for _, name := range []string{"learned.csv", filepath.Base(e.File)} {
		was, _ := os.ReadFile(path("all/" + name))
		is, err := os.ReadFile(path("again/" + name))
		if err != nil || string(was) != string(is) {
			t.Errorf("%v: %s is\n%s\nand was\n%s", err, name, is, was)
		}
	}
	for _, c := range []struct{ args, want []string }{
		{[]string{path("1"), "-o", path("all")}, []string{"all is not empty"}},
		{[]string{path("none"), "-o", path("new")}, []string{"no such file"}},
	} {
		_, said := tunefit(t, cli.ExitFailed, append([]string{"learn", "merge"}, c.args...)...)
		if m := lacks(said, c.want...); len(m) > 0 {
			t.Errorf("%q: no %q in %s", c.args, m, said)
		}
	}
	tunefit(t, cli.ExitUsage, "learn", "merge", path("1"))
	if _, err := os.Stat(path("new")); err == nil {
		t.Error("something was written")
	}
}

// Communicators of one job that try the same shape made the same steps: these count once.
func TestLearnMergeSameSteps(t *testing.T) {
	dir := t.TempDir()
	evidence(t, filepath.Join(dir, "job"), "a.json", func(*trial.Evidence) {})
	evidence(t, filepath.Join(dir, "job"), "b.json", func(e *trial.Evidence) {
		e.Blocks = 28
		e.Factors = append(e.Factors, e.Factors[0])
		e.Factors[1].Coll, e.Factors[1].Arms = nccl.CollBroadcast, slices.Clone(e.Factors[0].Arms)
	})
	tunefit(t, cli.ExitOK, "learn", "merge", filepath.Join(dir, "job"), "-o", filepath.Join(dir, "all"))
	all, err := readLearned(os.Stderr, filepath.Join(dir, "all"))
	if err != nil || len(all) != 1 || len(all[0].Factors) != 2 {
		t.Fatalf("%v, %+v", err, all)
	}
	for i, want := range []int{28, 30} { // of broadcast, of allreduce
		if arms := all[0].Factors[i].Arms; arms[0].Blocks+arms[1].Blocks != want {
			t.Errorf("%s: %+v, want %d blocks", all[0].Factors[i].Coll, arms, want)
		}
	}
}

// What must not be averaged is not, and what jobs disagree about is named.
func TestLearnMergeApart(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*trial.Evidence) // of the second job
		code   int
		want   []string
		rows   int
	}{
		{"three standard errors", func(e *trial.Evidence) { best(e).Effect = -0.02 + 2.9*0.001*math.Sqrt2 }, cli.ExitOK,
			nil, 1},
		{"contradiction", func(e *trial.Evidence) { best(e).Effect = -0.02 + 3.1*0.001*math.Sqrt2 }, cli.ExitOK,
			[]string{"contradiction: allreduce 64MiB ring/ll128: -2.0 % (-2.2 .. -1.8) in ", "1/a.json, -1.6 %", "2/a.json"}, 1},
		{"slower in one job", func(e *trial.Evidence) { best(e).Effect, best(e).Error = 0.006, 0.0025 }, cli.ExitOK,
			[]string{"contradiction"}, 0},
		{"other machine", func(e *trial.Evidence) { e.Machine = "00000000000000aa" }, cli.ExitFailed,
			[]string{"1/a.json is of machine 5d1f0c2a9be47360", "2/a.json of 00000000000000aa (needed: evidence of one"}, 0},
		{"no machine", func(e *trial.Evidence) { e.Machine = "" }, cli.ExitOK,
			[]string{"2/a.json is left out: its machine"}, 1},
		{"no release", func(e *trial.Evidence) { e.NCCL = "" }, cli.ExitOK, []string{"2/a.json is left out: its machine"}, 1},
		{"overlap", func(e *trial.Evidence) { e.Factors[0].Min, best(e).Config = 32<<20, config("ring/ll") },
			cli.ExitOK, nil, 2},
		{"another choice of NCCL", func(e *trial.Evidence) { e.Factors[0].Arms[0].Config = config("tree/ll") }, cli.ExitOK,
			nil, 2},
		{"another shape", func(e *trial.Evidence) { e.Factors[0].Coll = nccl.CollAllGather }, cli.ExitOK, nil, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			evidence(t, filepath.Join(dir, "1"), "a.json", func(*trial.Evidence) {})
			evidence(t, filepath.Join(dir, "2"), "a.json", c.change)
			out := filepath.Join(dir, "out")
			_, said := tunefit(t, c.code, "learn", "merge", filepath.Join(dir, "1"), filepath.Join(dir, "2"), "-o", out)
			if m := lacks(said, c.want...); len(m) > 0 {
				t.Errorf("no %q in %s", m, said)
			}
			if len(c.want) == 0 && strings.Count(said, "\n") != 1 {
				t.Error(said)
			}
			text, _ := os.ReadFile(filepath.Join(out, "learned.csv"))
			if rows := strings.Count(string(text), "\nall"); rows != c.rows {
				t.Errorf("%d rows, want %d:\n%s", rows, c.rows, text)
			}
			out = filepath.Join(dir, "again")
			tunefit(t, c.code, "learn", "merge", filepath.Join(dir, "2"), filepath.Join(dir, "1"), "-o", out)
			if again, _ := os.ReadFile(filepath.Join(out, "learned.csv")); string(again) != string(text) {
				t.Errorf("in the other order:\n%s\nwant\n%s", again, text)
			}
		})
	}
}

// Only what a job has proven becomes a row, and merged evidence is no proof of all of its leaders.
func TestLearnMergeUnproven(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	evidence(t, path("3"), "a.json", func(e *trial.Evidence) { // of its leaders, one was compared
		e.Factors = append(e.Factors, e.Factors[0])
		e.Factors[1].Coll, e.Factors[1].Arms = nccl.CollBroadcast, slices.Clone(e.Factors[0].Arms)
	})
	evidence(t, path("4"), "a.json", func(e *trial.Evidence) {
		e.State, e.Factors[0].Coll = trial.Stopped, nccl.CollAllGather
	})
	evidence(t, path("5"), "a.json", func(e *trial.Evidence) { e.State = trial.Trying })
	tunefit(t, cli.ExitOK, "learn", "merge", path("3"), path("4"), "-o", path("34"))
	_, said := tunefit(t, cli.ExitOK, "learn", "merge", path("34"), path("5"), "-o", path("345"))
	if rows, _ := os.ReadFile(path("345/learned.csv")); !strings.Contains(said, " 1 row ") ||
		!strings.Contains(string(rows), "\nallreduce,") {
		t.Errorf("%s%s", said, rows)
	}
	for _, job := range []string{"1", "2"} {
		evidence(t, filepath.Join(dir, job), "a.json", func(e *trial.Evidence) { e.State = trial.Stopped })
	}
	_, said = tunefit(t, cli.ExitOK, "learn", "merge", path("1"), path("2"), "-o", path("out"))
	if !strings.Contains(said, "0 rows of learned.csv") {
		t.Error(said)
	}
	if _, err := os.Stat(filepath.Join(dir, "out/learned.csv")); err == nil {
		t.Error("there are rows")
	}
}
