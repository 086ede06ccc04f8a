package channels

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/golden"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

func TestTuningReportAgreesWithNCCL(t *testing.T) {
	var total golden.Score
	for _, file := range golden.Files(t, "tuning.json") {
		var want map[string]any
		golden.LoadJSON(t, file, &want)
		// The reference was made without the exchange of tree patterns between ranks.
		report, err := ReportTuning(readGolden(t, file), TuneOptions{PlainTrees: true}, []int{1, 2, 4, 8, 16, 64})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if diff := golden.Compare(&total, golden.AsJSON(t, report), want); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
		text, err := json.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tuning.Read(bytes.NewReader(text), file); err != nil {
			t.Errorf("what is reported cannot be read: %v", err)
		}
	}
	t.Logf("tuning: %s values agree with NCCL", total)
}
