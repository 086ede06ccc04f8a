package configs

import (
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// Where NCCL's constants are replaced, costs are derived from the topology instead of
// read: they are those of the file, bit by bit, as long as none is.
func TestHGXH100FollowsFromDGXH100(t *testing.T) {
	set, err := tuning.Read(strings.NewReader(HGXH100), "hgx-h100.json")
	if err != nil {
		t.Fatal(err)
	}
	machine, err := topo.Read("dgx-h100.xml", strings.NewReader(DGXH100))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range set.Tunings {
		comms, err := channels.Tune(machine, channels.TuneOptions{}, want.NNodes)
		if err != nil {
			t.Fatal(err)
		}
		got := comms[0].Tuning
		for coll := range nccl.Coll(nccl.NumColls) {
			for bytes := int64(1); bytes <= 1<<34; bytes = bytes*3/2 + 1 {
				a, b := got.Table(coll, bytes, 1), want.Table(coll, bytes, 1)
				if a != b || got.ChooseFrom(a, bytes) != want.ChooseFrom(b, bytes) {
					t.Fatalf("%s of %d bytes on %d nodes: %v, want %v", coll, bytes, want.NNodes, a, b)
				}
			}
		}
	}
}
