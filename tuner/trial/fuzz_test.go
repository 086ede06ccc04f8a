package trial

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// A job goes on from what an earlier one has left, which somebody may have changed: its own estimates stay numbers,
// each block has an arm of each factor, and what it leaves can be read.
func FuzzGoOn(f *testing.F) {
	arms := func(n int) (all []Arm) {
		for channels := range n {
			all = append(all, Arm{Config: nccl.Config{Channels: channels}})
		}
		return all
	}
	factors := func() []Factor {
		return []Factor{{Coll: nccl.CollAllReduce, Range: nccl.Range{Max: 8}, Arms: arms(3)},
			{Coll: nccl.CollAllGather, Arms: arms(2)}}
	}
	for _, change := range []func(*Evidence){
		func(*Evidence) {},
		func(e *Evidence) { e.Factors[0].Arms[1].Effect, e.Factors[0].Arms[1].Error = -1, 1e-300 },
		func(e *Evidence) { e.Factors[0].Arms[0].Dropped, e.Factors[0].Arms[0].Effect = "worse", -1e308 },
		func(e *Evidence) { e.Factors[0].Arms[1].Error = 1e-160 }, // its square is next to nothing
		func(e *Evidence) { e.Blocks, e.LostSteps, e.Factors[0].Arms[2].Error = -1, 1e308, 1e308 },
	} {
		e := Evidence{Format: EvidenceFormat, Version: EvidenceVersion, Comm: nccl.Comm{Nodes: 1, Ranks: 8},
			Factors: factors()}
		e.Factors[0].Arms[1].Effect, e.Factors[0].Arms[1].Error, e.Factors[0].Arms[1].Blocks = -0.02, 0.001, 9
		change(&e)
		text, err := json.Marshal(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var earlier Evidence
		if json.Unmarshal(text, &earlier) != nil || earlier.Check() != nil {
			return
		}
		e := newExperiment(1, 0.01, factors())
		e.goOn(earlier)
		for block := range int64(12) {
			arms := e.draw(block)
			for i, k := range arms {
				if k < 0 || k >= len(e.factors[i].Arms) {
					t.Fatalf("factor %d has no arm %d", i, k)
				}
			}
			for range minSteps {
				e.add(block, 1, arms, time.Duration(1+block%3)*time.Second)
			}
			e.judge()
		}
		for _, factor := range e.factors {
			for _, a := range factor.Arms {
				if math.IsNaN(a.Effect+a.Error) || math.IsInf(a.Effect, 0) || math.IsInf(a.Error, 0) || a.Effect < -1 {
					t.Errorf("%+v", a)
				}
			}
		}
		if _, err := json.Marshal(Evidence{Factors: e.factors, LostSteps: e.lost()}); err != nil {
			t.Errorf("what was learned cannot be written: %v", err)
		}
	})
}
