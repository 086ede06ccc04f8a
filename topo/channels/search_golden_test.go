package channels

import (
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/nccltest"
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
		doc := readGolden(t, file)
		var answers map[string]struct {
			Found
			NVLSSupport int `json:"nvlsSupport"`
		}
		nccltest.LoadJSON(t, file, &answers)
		for _, name := range []string{"single", "multi", "single_collnet", "multi_collnet"} {
			where, want := nccltest.System(file)+" "+name, answers[name]
			hosts := 1
			if strings.HasPrefix(name, "multi") {
				hosts = 2
			}
			got, err := Search(doc, TuneOptions{CollNet: strings.HasSuffix(name, "collnet")}, hosts)
			if err != nil {
				t.Errorf("%s: %v", where, err)
				continue
			}
			if diff := nccltest.Compare(&total, nccltest.AsJSON(t, got), nccltest.AsJSON(t, want.Found)); diff != "" {
				t.Errorf("%s: %s", where, diff)
			}
			nccltest.Same(t, &total, "NVLS", where, want.NVLSSupport != 0, canMultimem(t, doc, hosts))
		}
	}
	t.Logf("%s values agree", total)
}

// canMultimem says whether the GPUs of a host that reach each other can multicast.
func canMultimem(t *testing.T, doc *topo.Document, hosts int) bool {
	t.Helper()
	sys, err := topo.Build(doc, topo.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	rank, ranks := sys.Whole()
	if err := sys.Init(rank, ranks*hosts); err != nil {
		t.Fatal(err)
	}
	return sys.CanMultimem()
}
