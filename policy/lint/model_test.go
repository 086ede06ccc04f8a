package lint

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

const (
	here  = "aaaaaaaaaaaaaaaa"
	other = "dddddddddddddddd"
)

func measuredOn(fingerprint string) *topo.Machine {
	return &topo.Machine{Fingerprint: topo.Fingerprint(fingerprint)}
}

// measured holds allreduce on 2 nodes with 16 ranks from 1 KiB to 64 KiB: ring/simple with 8 and 16
// channels, tree/ll with 8 channels in half the time of either.
func measured() *model.File {
	curve := func(algo, proto string, channels int, us float64) model.Curve {
		return model.Curve{Algo: algo, Proto: proto, Channels: channels,
			Measured: [][2]float64{{1 << 10, us}, {8 << 10, 2 * us}, {64 << 10, 4 * us}}}
	}
	return &model.File{Format: model.Format, Version: model.Version, CurveSets: []model.CurveSet{{
		Coll: "allreduce", Comm: nccl.Comm{Nodes: 2, Ranks: 16}, Noise: .01,
		HeldOut: []model.Trial{{LeftOut: "every other size",
			Score: model.Score{Decisions: 9, Mean: 1.02, Low: 1, High: 1.04, P95: 1.05, Max: 1.06}, VersusDefault: .9}},
		Default: []model.DefaultPoint{{Bytes: 1 << 10, Micros: 20}, {Bytes: 64 << 10, Micros: 80}},
		Curves: []model.Curve{curve("ring", "simple", 8, 20), curve("ring", "simple", 16, 20),
			curve("tree", "ll", 8, 10)},
	}}}
}

func checkModel(t *testing.T, change func(*model.File)) ([]Diagnostic, *model.Model) {
	t.Helper()
	file := measured()
	if change != nil {
		change(file)
	}
	text, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	machine, err := topo.ParseFingerprint(here)
	if err != nil {
		t.Fatal(err)
	}
	return CheckModel("m.json", text, &machine)
}

func TestModelRules(t *testing.T) {
	group := func(change func(*model.CurveSet)) func(*model.File) {
		return func(f *model.File) { change(&f.CurveSets[0]) }
	}
	for _, c := range []struct {
		change func(*model.File)
		says   string // "" for nothing
	}{
		{nil, ""},
		{func(f *model.File) { f.Version = model.Version - 1 }, "fit the model anew with tunefit fit) [model-invalid]"},
		{func(f *model.File) { f.Version = model.Version + 1 }, "[model-invalid]"},
		{group(func(g *model.CurveSet) { g.Noise = -1 }),
			"m.json: error: groups[0].noise: -1 (allowed: above 0, below 10) [model-invalid]"},
		{func(f *model.File) { f.Provenance.SimulatedRows = 7 },
			"7 of the measurements it was fitted to are simulated [model-simulated]"},
		{func(f *model.File) { f.Provenance.Topology = measuredOn(here) }, ""},
		{func(f *model.File) { f.Provenance.Topology = measuredOn(other) }, "different machine"},
		{group(func(g *model.CurveSet) { g.HeldOut[0].Mean = 1.2 }),
			"m.json: warning: allreduce with 2 nodes, 16 ranks: with every other size left out, decisions took 1.200 " +
				"times the best"},
		{group(func(g *model.CurveSet) { g.HeldOut[0].VersusDefault = 1.01 }),
			"1.010 times as long as NCCL's default [model-regret]"},
		{group(func(g *model.CurveSet) { g.HeldOut[0].LeftOut, g.HeldOut[0].Mean = "one channel count", 1.2 }), ""},
		{group(func(g *model.CurveSet) { g.Default = nil }), "the default was not measured [model-no-default]"},
	} {
		found, m := checkModel(t, c.change)
		got := fmt.Sprint(found)
		if c.says == "" && len(found) > 0 || len(found) > 1 || !strings.Contains(got, c.says) {
			t.Errorf("found %s, want %q", got, c.says)
		}
		if invalid := len(found) > 0 && found[0].Severity == Error; invalid != (m == nil) {
			t.Errorf("%s, and a model: %v", got, m != nil)
		}
	}
	if found, m := CheckModel("m.json", []byte("{"), nil); m != nil || len(found) != 1 ||
		found[0].Rule != "model-invalid" {
		t.Errorf("%v", found)
	}
}

// Rows are held against what was measured for the same communicator and sizes.
func TestRowsAgainstModel(t *testing.T) {
	const disagrees = "p.csv:2 model-disagrees"
	const unseen = "p.csv:2 model-channels-unseen"
	for rows, want := range map[string][]string{
		"allreduce,1K,32K,ring,simple,8,2,8,,\n":  {disagrees},
		"allreduce,1K,32K,ring,simple,,,8,,\n":    {disagrees},
		"allreduce,1K,32K,tree,ll,8,2,8,,\n":      nil,
		"allreduce,1K,32K,tree,,,2,8,,\n":         nil,
		"allreduce,1K,32K,ring,simple,8,3,8,,\n":  nil,
		"allgather,1K,32K,ring,simple,8,2,8,,\n":  nil,
		"allreduce,128K,1M,ring,simple,8,2,8,,\n": nil,
		"allreduce,1K,32K,ring,ll,8,2,8,,\n":      {unseen},
		"allreduce,1K,32K,tree,ll,4,2,8,,\n":      {unseen},
		"allreduce,1K,32K,default,,,2,8,,\n":      nil,
		"allreduce,0,1M,tree,ll,8,2,8,,\n":        nil,
		"allreduce,0,64K,default,,,,8,,\n":        nil,
		"allreduce,1025,64K,default,,,,8,,\n":     nil,
	} {
		_, m := checkModel(t, nil)
		if m == nil {
			t.Fatal("no model")
		}
		var got []string
		for _, f := range Check("p.csv", []byte(header+rows), Options{Model: m}) {
			if strings.HasPrefix(f.Rule, "model-") {
				got = append(got, f.Position()+" "+f.Rule)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s%q, want %q", rows, got, want)
		}
	}
}
