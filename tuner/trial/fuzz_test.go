package trial

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
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
	for _, block := range []Block{{[]int{1, 0}, -1.6, 1e-5, 40, 0}, {[]int{2, 1}, 100, 0, -1, 0}, {[]int{0, 0}, -100, 100, 1 << 62, 0},
		{[]int{0, 3}, 0, 0, 0, 0}} {
		e := Evidence{Format: EvidenceFormat, Version: EvidenceVersion, Comm: nccl.Comm{Nodes: 1, Ranks: 8},
			Factors: factors(), Runs: []Run{{Blocks: []Block{{[]int{0, 0}, -1.6, 1e-5, 40, 0}, block}}}}
		text, err := json.Marshal(e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		earlier, _, err := Read("e.json", text)
		if err != nil || earlier == nil {
			return
		}
		now := Evidence{Key: "this job", Factors: factors()}
		now.Add([]Evidence{*earlier})
		e := newExperiment(&now, 1, 0.01, false)
		for block := range int64(12) {
			arms := e.draw(block)
			for i, k := range arms {
				if k < 0 || k >= len(e.Factors[i].Arms) {
					t.Fatalf("factor %d has no arm %d", i, k)
				}
			}
			for range minSteps {
				e.inBlock(block, arms, time.Duration(1+block%3)*time.Second)
			}
			if e.due() {
				e.judge()
			}
		}
		for _, factor := range e.Factors {
			for _, a := range factor.Arms {
				if math.IsNaN(a.Effect+a.Error) || math.IsInf(a.Effect, 0) || math.IsInf(a.Error, 0) || a.Effect < -1 {
					t.Errorf("%+v", a)
				}
			}
		}
		if _, err := json.Marshal(now); err != nil {
			t.Errorf("what was learned cannot be written: %v", err)
		}
	})
}

func BenchmarkWorstGoOn(b *testing.B) {
	const (
		head   = `{"format":"nccl-tuner-go learning","version":3,"nodes":1,"ranks":8,`
		factor = `"factors":[{"collective":"allreduce","max_bytes":8,"arms":[{},{"channels":1}]}],`
	)
	hostile.Benchmark(b, func(text []byte) error {
		earlier, _, err := Read("e.json", text)
		if err != nil || earlier == nil {
			return err
		}
		now := Evidence{Key: "this job", Factors: []Factor{{Coll: nccl.CollAllReduce, Range: nccl.Range{Max: 8},
			Arms: []Arm{{}, {Config: nccl.Config{Channels: 1}}}}}}
		now.Add([]Evidence{*earlier})
		newExperiment(&now, 1, 0.01, false)
		return nil
	},
		hostile.Text{Head: head + `"factors":[`, Unit: `{"arms":[{}]},`, Tail: "{}]}"},
		hostile.Text{Head: head + `"factors":[{"arms":[`, Unit: "{},", Tail: "{}]}]}"},
		hostile.Text{Head: head + factor + `"runs":[{"blocks":[`, Unit: `{"arms":[1],"mean":0.%d,"steps":1},`,
			Tail: `{"arms":[1],"steps":1}]}]}`},
		hostile.Text{Head: head + factor + `"runs":[`, Unit: `{"comm":"%d","blocks":[{"arms":[1],"steps":1}]},`,
			Tail: "{}]}"},
		hostile.Text{Head: head + factor + `"runs":[{"blocks":[{"arms":[`, Unit: "1,", Tail: "1]}]}]}"},
		hostile.Text{Head: `{"format":"`, Unit: "x", Tail: `"}`},
	)
}
