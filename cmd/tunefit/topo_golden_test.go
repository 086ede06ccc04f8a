package main

import (
	"encoding/json"
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
