package channels

import (
	"fmt"
	"slices"
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

func compareGraph(a *golden.Tally, kind, where string, want, got *Graph) {
	if want == nil {
		return
	}
	if got == nil {
		a.Check(kind, false, func() string { return where + ": missing" })
		return
	}
	at := where + " " + kind
	golden.Same(a, kind+" pattern", at, want.Pattern, got.Pattern)
	golden.Same(a, kind+" nChannels", at, want.NChannels, got.NChannels)
	golden.Same(a, kind+" bwIntra", at, want.BWIntra, got.BWIntra)
	golden.Same(a, kind+" bwInter", at, want.BWInter, got.BWInter)
	golden.Same(a, kind+" typeIntra", at, want.TypeIntra, got.TypeIntra)
	golden.Same(a, kind+" typeInter", at, want.TypeInter, got.TypeInter)
	golden.Same(a, kind+" latencyInter", at, want.LatencyInter, got.LatencyInter)
	golden.Same(a, kind+" crossNic", at, want.CrossNIC, got.CrossNIC)
	golden.Same(a, kind+" sameChannels", at, want.SameChannels, got.SameChannels)
	golden.Same(a, kind+" nHops", at, want.NHops, got.NHops)
	golden.Same(a, kind+" min/max channels", at, [2]int{want.MinChannels, want.MaxChannels}, [2]int{got.MinChannels, got.MaxChannels})
	a.Check(kind+" order", slices.EqualFunc(want.Intra, got.Intra, slices.Equal), func() string {
		return fmt.Sprintf("%s: NCCL %v, here %v", at, want.Intra, got.Intra)
	})
	a.Check(kind+" NICs", slices.EqualFunc(want.Inter, got.Inter, slices.Equal), func() string {
		return fmt.Sprintf("%s: NCCL %v, here %v", at, want.Inter, got.Inter)
	})
}

func TestSearchAgreesWithNCCL(t *testing.T) {
	var a golden.Tally
	var total golden.Score
	for _, file := range golden.Files(t, "graphs.json") {
		var want GraphsReport
		var text any
		golden.LoadJSON(t, file, &want)
		golden.LoadJSON(t, file, &text)
		got, err := ReportGraphs(readGolden(t, file), topo.BuildOptions{}, topo.Settings{})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		for variant, w := range want {
			where := golden.System(file) + " " + variant
			g := got[variant]
			golden.Same(&a, "NVLS support", where, w.NVLSSupport, g.NVLSSupport)
			compareGraph(&a, "ring", where, w.Ring, g.Ring)
			compareGraph(&a, "tree", where, w.Tree, g.Tree)
			compareGraph(&a, "nvls", where, w.NVLS, g.NVLS)
			compareGraph(&a, "collnet chain", where, w.CollNetChain, g.CollNetChain)
			compareGraph(&a, "collnet direct", where, w.CollNetDirect, g.CollNetDirect)
		}
		if diff := golden.Compare(&total, golden.AsJSON(t, got), text); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
	a.Log(t)
	t.Logf("as JSON: %s values agree", total)
	if n := a.Failures(); n > 0 {
		t.Errorf("%d values differ from NCCL's", n)
	}
}
