package command

import (
	"encoding/json"
	"fmt"
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

const learnSamples = "../../../../docs/testdata/learn"

// What the page shows of a job that learns is what is printed.
func TestLearn(t *testing.T) {
	out, _ := tunefit(t, cli.ExitOK, "learn", filepath.Join(learnSamples, "job1"))
	page, err := os.ReadFile("../../../../docs/TRIAL.md")
	if err != nil {
		t.Fatal(err)
	}
	_, learning, found := strings.Cut(string(page), "\n## Let the job learn\n")
	if !found {
		t.Fatal("docs/TRIAL.md does not say how a job learns")
	}
	for line := range strings.Lines(learning) {
		line, shown := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		if shown && !strings.HasPrefix(line, "export ") && !strings.Contains(out, line) {
			t.Errorf("no %q in\n%s", line, out)
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
		f.Arms = append(f.Arms, trial.Arm{Config: config("tree/ll"), Blocks: 30, Effect: -0.02},
			trial.Arm{Config: config("ring/ll"), Blocks: 9, Effect: -0.01},
			trial.Arm{Config: config("ring/ll128/8")})
		e.Factors = append(e.Factors, trial.Factor{Coll: nccl.CollReduce, Arms: slices.Clone(f.Arms)})
		e.Factors[2].Arms[0].Blocks = 3
	})
	out, _ := tunefit(t, cli.ExitOK, "learn", dir)
	for _, want := range []string{"30 alike: dropped\n",
		"9 not the fastest: dropped\n", "ring/ll128 8 ch - - - 0 not tried yet\n",
		"3 NCCL's default, hardly tried: the others' figures may all be off by as much\n"} {
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
			e.Factors[0].Arms[1].Blocks, e.Factors[0].Coll = blocks-10, nccl.Coll(i)
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
	file := filepath.Join(dir, "a.json")
	text, _ := os.ReadFile(file)
	var e map[string]any
	json.Unmarshal(text, &e)
	delete(e, "runs")
	text, _ = json.Marshal(e)
	os.WriteFile(file, text, 0o644)
	out, _ = tunefit(t, cli.ExitOK, "learn", dir, "--json")
	if !strings.Contains(out, `"factors": []`) || !strings.Contains(out, `"runs": []`) {
		t.Errorf("a list that is empty is not []: %s", out)
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
			cli.ExitFailed, []string{"a.json: factor 1: 4 to 0 bytes, 0 candidates"}},
		{"a.json", `{"format":"nccl-tuner-go learning","version":3,"nodes":1,"ranks":8,"runs":[{"comm":"x-8","blocks":[{"arms":[0]}]}]}`,
			cli.ExitFailed, []string{"a.json: block 1 of \"x-8\": candidates [0], mean 0"}},
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

// blocksOf are blocks by which arms were tried so often, with such effects.
func blocksOf(factors []trial.Factor) (blocks []trial.Block) {
	dice := rand.New(rand.NewPCG(1, 2))
	for i, f := range factors {
		var drawn []int
		for k, a := range f.Arms {
			drawn = append(drawn, slices.Repeat([]int{k}, a.Blocks)...)
		}
		dice.Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
		for n, k := range drawn {
			if n == len(blocks) {
				blocks = append(blocks, trial.Block{Arms: slices.Repeat([]int{-1}, len(factors)),
					Mean: 0.001 * dice.NormFloat64(), Steps: 20})
			}
			blocks[n].Arms[i] = k
			blocks[n].Mean += f.Arms[k].Effect
		}
	}
	return blocks
}

// evidence writes a file of a proven gain, changed. Its blocks are as its arms say.
func evidence(t *testing.T, dir, name string, change func(*trial.Evidence)) {
	t.Helper()
	const size = 64 << 20
	began := time.Date(2026, 11, 2, 14, 0, 0, 0, time.UTC)
	e := trial.Evidence{Format: trial.EvidenceFormat, Version: trial.EvidenceVersion, Key: dir + "/" + name,
		Comm: nccl.Comm{Nodes: 2, Ranks: 16}, NCCL: "2.30.7", Machine: "5d1f0c2a9be47360", Began: began,
		At: began.Add(time.Hour), State: trial.Learned, StepSeconds: 1, BlockSeconds: 16, Blocks: 30, Steps: 400,
		LostSteps: 2, Result: &trial.Conclusion{Result: trial.Result{State: trial.Precise, Pairs: 9, Mean: -0.02, Low: -0.03,
			High: -0.01}}, Factors: []trial.Factor{{Coll: nccl.CollAllReduce, Range: nccl.Range{Min: size, Max: size},
			Settled: true, Arms: []trial.Arm{{Config: config("ring/simple"), Blocks: 10, Dropped: "worse"},
				{Config: config("ring/ll128"), Effect: -0.02, Error: 0.001, Blocks: 20}}}}}
	change(&e)
	e.Runs = []trial.Run{{Comm: "a job", Began: began, Blocks: blocksOf(e.Factors)}}
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
