package tuner

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// The values are those of the releases' ncclTunerConstants (src/graph/tuning.cc), and 0
// from 2.31 on, which fills them in after a tuner's init.
func TestUncheckedAllGather(t *testing.T) {
	for _, c := range []struct {
		release   string
		abi       int
		ringLL128 float64
		want      bool
	}{
		{"2.21.5", 2, math.NaN(), false}, {"2.27.7", 4, math.NaN(), false},
		{"2.28.3", 5, 2 * 36.7, false}, {"2.28.9", 5, 2 * 36.7, false},
		{"2.29.2", 5, 34.5, true}, {"2.29.7", 5, 40, true}, {"2.30.3", 6, 40, true}, {"2.30.7", 6, 40, true},
		{"2.31.2", 6, 0, false}, {"2.32.6", 7, 0, false},
		{"one that passes no constants", 6, math.NaN(), true}, {"a coming one", 7, 41.5, true},
	} {
		if got := UncheckedAllGather(c.abi, c.ringLL128); got != c.want {
			t.Errorf("%s: %v, want %v", c.release, got, c.want)
		}
	}
}

// What is left to NCCL is said once for a communicator, also if it comes with an edit, and
// never where NCCL checks.
func TestUncheckedAllGatherIsSaidOnce(t *testing.T) {
	view := func(rows string, unchecked bool) *policy.EngineView {
		p, err := policy.ReadCSV("p.csv", []byte(rows))
		if err != nil {
			t.Fatal(err)
		}
		return policy.NewEngine(p, nil, nil).For(policy.Comm{Comm: nccl.Comm{Nodes: 1, Ranks: 8},
			UncheckedAllGather: unchecked})
	}
	const without, with = "allgather,0,inf,ring,ll,-1,-1,-1\n",
		"allreduce,0,inf,ring,ll,4,-1,-1\nallgather,0,inf,ring,ll,4,-1,-1\n"
	for _, unchecked := range []bool{false, true} {
		var said []string
		c := &Comm{log: telemetry.Log{Emit: func(_ telemetry.Level, _ string, _ int, text string) {
			said = append(said, text)
		}}}
		for i, rows := range []string{without, with, without, with} {
			c.logUnchecked(view(rows, unchecked))
			want := 0
			if unchecked && i > 0 {
				want = 1
			}
			if len(said) != want ||
				want == 1 &&
					!strings.Contains(said[0],
						"the channel count of 1 row for allgather (first: line 2) is left to NCCL") {
				t.Errorf("unchecked: %v, version %d: %s", unchecked, i, fmt.Sprint(said))
			}
		}
	}
}
