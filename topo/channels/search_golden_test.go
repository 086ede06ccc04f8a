package channels

import (
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/golden"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

func readGolden(t *testing.T, answers string) *topo.Document {
	t.Helper()
	doc, err := topo.ReadFile(golden.Topology(answers))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestSearchAgreesWithNCCL(t *testing.T) {
	var total golden.Score
	for _, file := range golden.Files(t, "graphs.json") {
		var want any
		golden.LoadJSON(t, file, &want)
		got, err := ReportGraphs(readGolden(t, file), topo.BuildOptions{}, topo.Settings{})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if diff := golden.Compare(&total, golden.AsJSON(t, got), want); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
	t.Logf("%s values agree", total)
}
