package topo

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"
)

func TestTuningReportAgreesWithNCCL(t *testing.T) {
	var total score
	for _, file := range goldenFiles(t, "tuning.json") {
		var want map[string]any
		if !loadJSON(t, file, &want) {
			continue
		}
		dir := filepath.Dir(file)
		// The reference was made without the exchange of tree patterns between ranks.
		report, err := ReportTuning(readGolden(t, dir), TuneOptions{PlainTrees: true}, []int{1, 2, 4, 8, 16, 64})
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		if diff := compare(&total, "", asJSON(t, report), want); diff != "" {
			t.Errorf("%s: %s", dir, diff)
		}
		text, err := json.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadTuning(bytes.NewReader(text), dir); err != nil {
			t.Errorf("what is reported cannot be read: %v", err)
		}
	}
	t.Logf("tuning: %s values agree with NCCL", total)
}
