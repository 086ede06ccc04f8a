package tuner

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// What is left to NCCL is said once for a communicator, also if it comes with an edit, and
// never where NCCL checks.
func TestUncheckedAllGatherIsSaidOnce(t *testing.T) {
	view := func(rows string, unchecked bool) *policy.EngineView {
		version := nccl.Version(22809)
		if unchecked {
			version = nccl.Reference
		}
		p, err := policy.ReadCSV("p.csv", []byte(rows))
		if err != nil {
			t.Fatal(err)
		}
		return policy.NewEngine(p, nil, nil).For(policy.Comm{Comm: nccl.Comm{Nodes: 1, Ranks: 8},
			NCCL: nccl.Only(version)})
	}
	const without, with = "allgather,0,inf,ring,ll,-1,-1,-1\n",
		"allreduce,0,inf,ring,ll,4,-1,-1\nallgather,0,inf,ring,ll,4,-1,-1\n"
	for _, unchecked := range []bool{false, true} {
		var said []string
		c := &Communicator{log: telemetry.Log{Emit: func(_ telemetry.Level, _ string, _ int, text string) {
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
