package topo

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

type goldenGraphs struct {
	NVLSSupport int     `json:"nvlsSupport"`
	MaxBw       float32 `json:"maxBw"`
	TotalBw     float32 `json:"totalBw"`
	ChannelGraphs
}

func compareGraph(a *tally, kind, where string, want, got ChannelGraph) {
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

func compareGraphs(a *tally, where string, want, got ChannelGraphs) {
	compareGraph(a, "ring", where, want.Ring, got.Ring)
	compareGraph(a, "tree", where, want.Tree, got.Tree)
	compareGraph(a, "nvls", where, want.NVLS, got.NVLS)
}

func TestSearchAgreesWithNCCL(t *testing.T) {
	var a tally
	for _, file := range goldenFiles(t, "graphs.json") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		golden := map[string]goldenGraphs{}
		if err := json.Unmarshal(data, &golden); err != nil {
			t.Fatal(err)
		}
		doc := readGolden(t, filepath.Dir(file))
		for variant, want := range golden {
			where := goldenSystem(file) + " " + variant
			sys, err := Build(doc, BuildOptions{})
			if err != nil {
				t.Fatal(err)
			}
			comm := WholeComm(sys)
			if strings.HasPrefix(variant, "multi") {
				comm.NRanks *= 2
			}
			collNet := strings.HasSuffix(variant, "collnet")
			for _, n := range sys.Nodes[NodeNET] {
				n.Net.Coll = collNet
			}
			if err := sys.Init(Settings{}, comm); err != nil {
				t.Fatal(err)
			}
			got, err := sys.SearchChannels(SearchOptions{NVLS: want.NVLSSupport != 0, CollNet: collNet})
			if err != nil {
				t.Fatal(err)
			}
			same(&a, "NVLS support", where, want.NVLSSupport != 0, sys.HasMulticast())
			if collNet {
				compareGraph(&a, "collnet chain", where, want.CollNetChain, got.CollNetChain)
				compareGraph(&a, "collnet direct", where, want.CollNetDirect, got.CollNetDirect)
			} else {
				compareGraphs(&a, where, want.ChannelGraphs, *got)
			}
		}
	}
	a.log(t)
	if n := a.failures(); n > 0 {
		t.Errorf("%d values differ from NCCL's", n)
	}
}
