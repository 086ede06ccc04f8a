package topo

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"
)

func TestGraphsReportAgreesWithNCCL(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: the search is compared in TestSearchAgreesWithNCCL already")
	}
	var total score
	for _, dir := range goldenSystems(t) {
		var want map[string]any
		if !loadJSON(t, filepath.Join(dir, "graphs.json"), &want) {
			continue
		}
		report, err := Graphs(readGolden(t, dir), BuildOptions{}, Settings{})
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		if diff := compare(&total, "", asJSON(t, report), want); diff != "" {
			t.Errorf("%s: %s", dir, diff)
		}
	}
	t.Logf("graphs: %s values agree with NCCL", total)
}

func TestTuningReportAgreesWithNCCL(t *testing.T) {
	var total score
	for _, dir := range goldenSystems(t) {
		var want map[string]any
		if !loadJSON(t, filepath.Join(dir, "tuning.json"), &want) {
			continue
		}
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
