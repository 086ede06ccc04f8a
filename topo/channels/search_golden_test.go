package channels

import (
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccltest"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

func readGolden(t *testing.T, answers string) *topo.Document {
	t.Helper()
	doc, err := topo.ReadFile(nccltest.Topology(answers))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestSearchAgreesWithNCCL(t *testing.T) {
	var total nccltest.Score
	for _, file := range nccltest.Files(t, "graphs.json") {
		var want any
		nccltest.LoadJSON(t, file, &want)
		got, err := ReportGraphs(readGolden(t, file), topo.BuildOptions{}, topo.Settings{})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if diff := nccltest.Compare(&total, nccltest.AsJSON(t, got), want); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
	t.Logf("%s values agree", total)
}
