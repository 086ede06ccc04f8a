package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccltest"
)

// answer is what a command prints as JSON.
func answer(t *testing.T, args ...string) any {
	t.Helper()
	out, _ := tunefit(t, cli.ExitOK, args...)
	var v any
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

// every takes each n-th file: package topo compares all of them, and here the way through the command line counts.
func every(n int, files []string) (some []string) {
	for i := 0; i < len(files); i += n {
		some = append(some, files[i])
	}
	return some
}

func TestTopoPathsAgreeWithNCCL(t *testing.T) {
	var total nccltest.Score
	for _, file := range every(4, nccltest.Files(t, "paths.json")) {
		var want struct{ Stages map[string]any }
		nccltest.LoadJSON(t, file, &want)
		for _, stage := range []string{"raw", "nocomm", "single"} {
			if want.Stages[stage] == nil {
				continue // some systems have one stage only
			}
			got := answer(t, "topo", "paths", nccltest.Topology(file), "--stage", stage, "--json")
			if diff := nccltest.Compare(&total, got, want.Stages[stage]); diff != "" {
				t.Errorf("%s %s: %s", nccltest.System(file), stage, diff)
			}
		}
	}
	t.Logf("%s values agree", total)
}

func TestTopoLinksAgreeWithNCCL(t *testing.T) {
	var total nccltest.Score
	for _, file := range every(4, nccltest.Files(t, "p2p_gdr.json")) {
		var want map[string]map[string]any
		nccltest.LoadJSON(t, file, &want)
		for variant, changed := range want {
			if strings.Contains(variant, "ORACLE_") {
				continue // no variable of NCCL's
			}
			t.Run(nccltest.System(file)+" "+variant, func(t *testing.T) {
				for name, value := range nccltest.Environment(variant) {
					if value != "" {
						t.Setenv(name, value)
					}
				}
				got := answer(t, "topo", "links", nccltest.Topology(file), "--json").(map[string]any)
				for key, value := range want["default"] {
					if v, ok := changed[key]; ok {
						value = v
					}
					if diff := nccltest.Compare(&total, got[key], value); diff != "" {
						t.Errorf("%s%s", key, diff)
					}
				}
			})
		}
	}
	t.Logf("%s values agree", total)
}

func TestTopoGraphsAndTuningAgreeWithNCCL(t *testing.T) {
	var graphs, costs nccltest.Score
	for _, file := range every(8, nccltest.Files(t, "graphs.json")) {
		var want any
		nccltest.LoadJSON(t, file, &want)
		if diff := nccltest.Compare(&graphs, answer(t, "topo", "graphs", nccltest.Topology(file), "--json"), want); diff != "" {
			t.Errorf("%s: %s", nccltest.System(file), diff)
		}
	}
	for _, file := range every(8, nccltest.Files(t, "tuning.json")) {
		var want any
		nccltest.LoadJSON(t, file, &want)
		// NCCL was asked without the exchange of tree patterns between ranks.
		got := answer(t, "topo", "tuning", nccltest.Topology(file), "--json", "--plain-trees")
		if diff := nccltest.Compare(&costs, got, want); diff != "" {
			t.Errorf("%s: %s", nccltest.System(file), diff)
		}
	}
	t.Logf("graphs: %s values agree; tuning: %s", graphs, costs)
}
