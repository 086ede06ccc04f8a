package command

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/testkit"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// A plan of a sweep: an error names the file, and a setting that is accepted is one of a flag.
func FuzzPlanFile(f *testing.F) {
	var written strings.Builder
	if err := writePlanFile(&written, sweepCommand(testkit.Env).Flags(), nil); err != nil {
		f.Fatal(err)
	}
	f.Add(written.String())
	f.Add("coll: [allreduce, allgather]\ncomm: 1x8\nbudget: 2h\n")
	f.Add("budget: &a [*a]\n---\n? {x: y}\n: z\n")
	f.Add("hosts: !!binary eA==\nbudget: ~\nbudgt: 1\n")
	file := filepath.Join(f.TempDir(), "plan.yaml")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		flags := sweepCommand(testkit.Env).Flags()
		if err := readPlanFile(file, flags); err != nil {
			if !strings.Contains(err.Error(), file) {
				t.Errorf("the error names no file: %v", err)
			}
			return
		}
		var again strings.Builder
		if err := writePlanFile(&again, flags, nil); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(again.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		reread := sweepCommand(testkit.Env).Flags()
		if err := readPlanFile(file, reread); err != nil {
			t.Errorf("what was written is refused: %v\n%s", err, again.String())
		}
	})
}

// Files that jobs have left, as somebody may have changed them: of what they learned, and of comparisons.
func FuzzLeftByJobs(f *testing.F) {
	add := func(v any) {
		text, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	add(trial.Evidence{Format: trial.EvidenceFormat, Version: trial.EvidenceVersion, State: trial.Learned,
		Comm: nccl.Comm{Nodes: 1, Ranks: 8}, NCCL: "2.30.7", Factors: []trial.Factor{{Coll: nccl.CollAllReduce,
			Range: nccl.Range{Max: 8}, Arms: []trial.Arm{{}, {Config: nccl.Config{Channels: 8}, Blocks: 9, Effect: -0.02,
				Error: 0.001, Proven: true}}}}})
	add(trial.Conclusion{Key: "k", Comm: nccl.Comm{Nodes: 1, Ranks: 8}})
	f.Add([]byte(`{"format":"nccl-tuner-go learning","version":3,"nodes":1,"ranks":1,"factors":[{}]}`))
	dir := f.TempDir()
	place := regexp.MustCompile(`^` + regexp.QuoteMeta(dir))
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(dir, "learning-1.json")
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		all, err := readLearned(io.Discard, dir)
		if err != nil && !place.MatchString(err.Error()) {
			t.Errorf("the error names no file: %v", err)
		}
		for _, l := range all {
			if _, err := json.Marshal(l); err != nil {
				t.Errorf("what was read cannot be written: %v", err)
			}
			writeLearned(io.Discard, all)
		}
		c, err := readComparison(file)
		if err != nil && !place.MatchString(err.Error()) {
			t.Errorf("the error names no file: %v", err)
		} else if err == nil && c.Verdict()+c.Effort() == "" {
			t.Errorf("%+v says nothing", c)
		}
	})
}

func BenchmarkWorstPlanFile(b *testing.B) {
	file := filepath.Join(b.TempDir(), "plan.yaml")
	hostile.Benchmark(b, func(text []byte) error {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			b.Fatal(err)
		}
		return readPlanFile(file, sweepCommand(testkit.Env).Flags())
	},
		hostile.Text{Head: "coll: [", Unit: "allreduce, ", Tail: "]"}, hostile.Text{Head: "hosts: [", Unit: "n%d, ", Tail: "]"},
		hostile.Text{Head: "sizes: ", Unit: "1K,", Tail: "1"}, hostile.Text{Head: "budget: ", Unit: "1"},
		hostile.Text{Unit: "x", Tail: ": 1"}, hostile.Text{Head: "coll: ", Unit: "x"}, hostile.Text{Unit: "a:\n"},
		hostile.Text{Unit: "? "}, hostile.Text{Unit: "&a "},
	)
}

func BenchmarkWorstLeftByJobs(b *testing.B) {
	const (
		head   = `{"format":"nccl-tuner-go learning","version":3,"nodes":1,"ranks":8,"nccl":"2.30.7","machine":"m",`
		factor = `"factors":[{"collective":"allreduce","arms":[{},{"channels":1}]}],`
	)
	dir := b.TempDir()
	file := filepath.Join(dir, "learning-1.json")
	hostile.Benchmark(b, func(text []byte) error {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			b.Fatal(err)
		}
		all, wrong := readLearned(io.Discard, dir)
		if wrong == nil && len(all) > 0 {
			writeLearned(io.Discard, all)
		}
		_, too := readComparison(file)
		return errors.Join(wrong, too)
	},
		hostile.Text{Head: head + `"factors":[`, Unit: `{"arms":[{}]},`, Tail: `{"arms":[{}]}]}`},
		hostile.Text{Head: head + `"factors":[`, Unit: `{"min_bytes":%d,"arms":[{}]},`, Tail: `{"arms":[{}]}]}`},
		hostile.Text{Head: head + factor + `"runs":[{"blocks":[`, Unit: `{"arms":[1],"mean":0.%d,"steps":1},`,
			Tail: `{"arms":[1],"steps":1}]}]}`},
		hostile.Text{Head: head + `"left_out":[`, Unit: `"x",`, Tail: `""]}`},
		hostile.Text{Head: head + `"blocks":`, Unit: "1", Tail: "}"},
	)
}
