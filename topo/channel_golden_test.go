package topo

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
)

func compareGraph(a *tally, kind, where string, want, got *ChannelGraph) {
	if want == nil {
		return
	}
	if got == nil {
		a.check(kind, false, func() string { return where + ": missing" })
		return
	}
	at := where + " " + kind
	same(a, kind+" pattern", at, want.Pattern, got.Pattern)
	same(a, kind+" nChannels", at, want.NChannels, got.NChannels)
	same(a, kind+" bwIntra", at, want.BWIntra, got.BWIntra)
	same(a, kind+" bwInter", at, want.BWInter, got.BWInter)
	same(a, kind+" typeIntra", at, want.TypeIntra, got.TypeIntra)
	same(a, kind+" typeInter", at, want.TypeInter, got.TypeInter)
	same(a, kind+" latencyInter", at, want.LatencyInter, got.LatencyInter)
	same(a, kind+" crossNic", at, want.CrossNIC, got.CrossNIC)
	same(a, kind+" sameChannels", at, want.SameChannels, got.SameChannels)
	same(a, kind+" nHops", at, want.NHops, got.NHops)
	same(a, kind+" min/max channels", at, [2]int{want.MinChannels, want.MaxChannels}, [2]int{got.MinChannels, got.MaxChannels})
	a.check(kind+" order", slices.EqualFunc(want.Intra, got.Intra, slices.Equal), func() string {
		return fmt.Sprintf("%s: NCCL %v, here %v", at, want.Intra, got.Intra)
	})
	a.check(kind+" NICs", slices.EqualFunc(want.Inter, got.Inter, slices.Equal), func() string {
		return fmt.Sprintf("%s: NCCL %v, here %v", at, want.Inter, got.Inter)
	})
}

func TestSearchAgreesWithNCCL(t *testing.T) {
	var a tally
	var total score
	for _, file := range goldenFiles(t, "graphs.json") {
		var want GraphsReport
		var text any
		if !loadJSON(t, file, &want) || !loadJSON(t, file, &text) {
			continue
		}
		got, err := Graphs(readGolden(t, filepath.Dir(file)), BuildOptions{}, Settings{})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		for variant, w := range want {
			where := goldenSystem(file) + " " + variant
			g := got[variant]
			same(&a, "NVLS support", where, w.NVLSSupport, g.NVLSSupport)
			compareGraph(&a, "ring", where, w.Ring, g.Ring)
			compareGraph(&a, "tree", where, w.Tree, g.Tree)
			compareGraph(&a, "nvls", where, w.NVLS, g.NVLS)
			compareGraph(&a, "collnet chain", where, w.CollNetChain, g.CollNetChain)
			compareGraph(&a, "collnet direct", where, w.CollNetDirect, g.CollNetDirect)
		}
		if diff := compare(&total, "", asJSON(t, got), text); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
	a.log(t)
	t.Logf("as JSON: %s values agree", total)
	if n := a.failures(); n > 0 {
		t.Errorf("%d values differ from NCCL's", n)
	}
}
