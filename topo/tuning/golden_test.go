package tuning

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/nccltest"
)

// answer is what NCCL says of one communicator size.
type answer struct {
	NNodes int              `json:"nNodes"`
	NRanks int              `json:"nRanks"`
	Pipe1  map[string]times `json:"pipe1"`
	Pipe4  map[string]times `json:"pipe4"`
}

type times struct {
	Times  map[string][]float32 `json:"times"`
	Choice []choice             `json:"choice"`
}

type choice struct {
	winner          string
	us              float32
	channels, warps int
}

func (c *choice) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&c.winner, &c.us, &c.channels, &c.warps})
}

func TestAgreesWithNCCL(t *testing.T) {
	var a nccltest.Score
	for _, file := range nccltest.Files(t, "tuning.json") {
		var answers struct{ Nodes map[string]answer }
		nccltest.LoadJSON(t, file, &answers)
		var set Set
		if err := set.UnmarshalJSON(nccltest.Read(t, file)); err != nil {
			t.Fatal(err)
		}
		for hosts, n := range answers.Nodes {
			where := nccltest.System(file) + " " + hosts
			compareTimes(t, &a, where, n, set.For(nccl.Comm{Nodes: n.NNodes, Ranks: n.NRanks}))
		}
	}
	t.Logf("%s values agree", a)
}

// compareTimes compares all times and choices of one communicator size.
func compareTimes(t *testing.T, a *nccltest.Score, where string, n answer, tuning *Tuning) {
	upper := func(algo nccl.Algo, proto nccl.Proto) string {
		return strings.ToUpper(algo.String() + "/" + proto.String())
	}
	for pipeOps, colls := range map[int]map[string]times{1: n.Pipe1, 4: n.Pipe4} {
		for c, name := range nccl.Colls.Words {
			c := nccl.Coll(c)
			want := colls[name]
			for i, chosen := range want.Choice {
				bytes := int64(8) << i
				table := tuning.Table(c, bytes, pipeOps)
				for al, p := range nccl.Cells {
					at := fmt.Sprintf("%s %s %s %d B x%d", where, name, upper(al, p), bytes, pipeOps)
					wantUs := nccl.Unavailable
					if times := want.Times[upper(al, p)]; times != nil {
						wantUs = times[i]
					}
					nccltest.Same(t, a, "times", at, wantUs, table[al][p])
				}
				got := tuning.Choose(c, bytes, pipeOps)
				have := choice{upper(got.Algo, got.Proto), got.Micros, got.Channels, got.Warps}
				nccltest.Same(t, a, "choices", fmt.Sprintf("%s %s %d B x%d", where, name, bytes, pipeOps), chosen, have)
			}
		}
	}
}
