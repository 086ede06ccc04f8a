package topo

import (
	"reflect"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/nccltest"
)

func readGolden(t testing.TB, answers string) *Document {
	t.Helper()
	doc, err := ReadFile(nccltest.Topology(answers))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestPathsAgreeWithNCCL(t *testing.T) {
	scores := map[Stage]*nccltest.Score{StageRaw: {}, StageSingle: {}}
	var reports, multi nccltest.Score
	for _, file := range nccltest.Files(t, "paths.json") {
		doc := readGolden(t, file)
		var answers struct{ Stages map[Stage]any }
		nccltest.LoadJSON(t, file, &answers)
		if diff := nccltest.Compare(&multi, nccltest.AsJSON(t, totalsOfTwo(t, doc)),
			answers.Stages["multi"]); diff != "" {
			t.Errorf("%s multi: %s", nccltest.System(file), diff)
		}
		for stage, s := range scores {
			want, ok := answers.Stages[stage]
			if !ok {
				continue
			}
			report, err := Paths(doc, Settings{}, stage)
			if err != nil {
				t.Error(err)
				continue
			}
			got := nccltest.AsJSON(t, report)
			reports.Add(reflect.DeepEqual(got, want))
			if diff := nccltest.Compare(s, got, want); diff != "" {
				t.Errorf("%s %s: %s", nccltest.System(file), stage, diff)
			}
		}
	}
	for stage, s := range scores {
		t.Logf("paths.json, %s: %v values agree", stage, s)
	}
	t.Logf("paths.json, multi: %v values agree", multi)
	t.Logf("paths.json: %v stages are identical; large ones are cut in the golden file", reports)
}

// totalsOfTwo is what the system starts its search from when it is one of two alike.
func totalsOfTwo(t *testing.T, doc *Document) *Totals {
	s := build(t, doc)
	rank, ranks := s.Whole()
	if err := s.Init(rank, 2*ranks); err != nil {
		t.Error(err)
	}
	return s.Totals()
}

func TestLinksAgreeWithNCCL(t *testing.T) {
	var all nccltest.Score
	files := 0
	for _, file := range nccltest.Files(t, "p2p_gdr.json") {
		doc := readGolden(t, file)
		var answers map[string]map[string]any
		nccltest.LoadJSON(t, file, &answers)
		files++
		for variant, changed := range answers {
			want := map[string]any{}
			for k, v := range answers["default"] {
				want[k] = v
			}
			for k, v := range changed {
				want[k] = v
			}
			env := nccltest.Environment(variant)
			if env["ORACLE_NVML_P2P_OFF"] == "1" {
				continue // what the driver denies is not modelled
			}
			set := SettingsFromEnv(func(name string) string { return env[name] })
			report, err := links(doc, set)
			if _, fails := changed["error"]; fails {
				all.Add(err != nil)
				if err == nil {
					t.Errorf("%s %s: no error, NCCL has %v", nccltest.System(file), variant, changed["message"])
				}
				continue
			}
			if err != nil {
				t.Error(err)
				continue
			}
			got := nccltest.AsJSON(t, report)
			if diff := nccltest.Compare(&all, got, want); diff != "" {
				t.Errorf("%s %s: %s", nccltest.System(file), variant, diff)
			}
		}
	}
	t.Logf("p2p_gdr.json, %d systems, all variants: %v values agree", files, all)
}
