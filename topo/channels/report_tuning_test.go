package channels

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccltest"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

func TestTuningReportAgreesWithNCCL(t *testing.T) {
	var total nccltest.Score
	for _, file := range nccltest.Files(t, "tuning.json") {
		var want map[string]any
		nccltest.LoadJSON(t, file, &want)
		// The reference was made without the exchange of tree patterns between ranks.
		report, err := ReportTuning(readGolden(t, file), TuneOptions{PlainTrees: true}, []int{1, 2, 4, 8, 16, 64})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if diff := nccltest.Compare(&total, nccltest.AsJSON(t, report), want); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
	t.Logf("tuning: %s values agree with NCCL", total)
}

// What tunefit topo tuning prints, --tuning takes for what it was printed from.
func TestTuningReportIsReadBack(t *testing.T) {
	for _, collNet := range []bool{false, true} {
		opt := TuneOptions{NCCL: nccl.Reference, CollNet: collNet}
		hosts := []int{1, 2, 4}
		report, err := ReportTuning(hgxH100.document(), opt, hosts)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		set, err := tuning.Read(bytes.NewReader(text), "report.json")
		if err != nil {
			t.Fatal(err)
		}
		comms, err := Tune(hgxH100.document(), opt, hosts...)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range comms {
			want, got := c.Tuning, set.For(c.Tuning.NNodes, c.Tuning.NRanks)
			if got == nil || collNet && c.Hosts == 4 && !got.CollNet {
				t.Fatalf("%d hosts: %+v", c.Hosts, got)
			}
			for coll := range nccl.Coll(nccl.NumColls) {
				for bytes := int64(8); bytes <= 1<<34; bytes *= 2 {
					if got.Table(coll, bytes, 1) != want.Table(coll, bytes, 1) || got.Choose(coll, bytes, 1) != want.Choose(coll, bytes, 1) {
						t.Fatalf("%d hosts, %s, %d B: another choice", c.Hosts, coll, bytes)
					}
				}
			}
		}
	}
}
