package policy

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// smallModel has ring/simple with 2 and 8 channels, tree/ll with 4, nvls/simple with 16, at 1 KiB,
// 4 KiB and 16 KiB on 2 nodes of 4; the default is tree/ll.
func smallModel() *model.File {
	file := &model.File{}
	text, err := os.ReadFile("model/testdata/small.json")
	if err == nil {
		err = json.Unmarshal(text, file)
	}
	if err != nil {
		panic(err)
	}
	return file
}

// costsOf is a table with tree/ll at 1, ring/simple at 2 and nvls/simple at 3.
func costsOf(change func(micros []float32)) nccl.Costs {
	micros := make([]float32, 21)
	for i := range micros {
		micros[i] = -1
	}
	micros[0], micros[1*3+2], micros[4*3+2] = 1, 2, 3
	if change != nil {
		change(micros)
	}
	return nccl.Costs{Micros: micros, NumProto: 3}
}

func machineOf(t *testing.T, fingerprint string, sum topo.Summary) *topo.Machine {
	t.Helper()
	f, err := topo.ParseFingerprint(fingerprint)
	if err != nil {
		t.Fatal(err)
	}
	return &topo.Machine{Fingerprint: f, Summary: sum}
}

const (
	sameKind  = "aaaaaaaaaaaaaaaa"
	otherKind = "bbbbbbbbbbbbbbbb"
)
