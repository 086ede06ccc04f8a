package model_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// A verification decides at its very size, and only where NCCL would do what it did then and offers what won.
func TestVerifiedSize(t *testing.T) {
	nvls := model.Verified{Bytes: 4 << 10, Algo: "nvls", Proto: "simple", Micros: 15, DefaultMicros: 20, Repetitions: 4}
	tree := model.Verified{Bytes: 4 << 10, Algo: "tree", Proto: "ll", Channels: 4, Micros: 15, DefaultMicros: 20,
		Repetitions: 4}
	ring := model.Verified{Bytes: 4 << 10, Algo: "ring", Proto: "simple", Channels: 8, Micros: 15, DefaultMicros: 20,
		Repetitions: 4}
	own := model.Verified{Bytes: 4 << 10, Micros: 20, DefaultMicros: 20, Repetitions: 4}
	unmeasured := ring
	unmeasured.Channels = 32
	for _, c := range []struct {
		name     string
		verified model.Verified
		bytes    uint64
		costs    func([]float32)
		holds    bool
		why      model.Abstention
	}{
		{"it won", ring, 4 << 10, nil, true, model.Decides},
		{"another size", ring, 5 << 10, nil, false, model.Decides},
		{"the default won", own, 4 << 10, nil, true, model.AbstainBest},
		{"NCCL chooses otherwise now", ring, 4 << 10, func(c []float32) { c[14] = 0.5 }, false, model.Decides},
		{"NCCL's choice is not known", ring, 4 << 10, func(c []float32) { c[14] = 1 }, false, model.Decides},
		{"not available here", ring, 4 << 10, func(c []float32) { c[5] = -1 }, false, model.Decides},
		{"NCCL avoids ring", ring, 4 << 10, func(c []float32) { c[5] = 2000 }, false, model.Decides},
		{"a configuration without a curve", unmeasured, 4 << 10, nil, false, model.Decides},
		{"a count of NVLS over two nodes", func() model.Verified { v := nvls; v.Channels = 16; return v }(), 4 << 10,
			nil, false, model.Decides},
		{"what is the default by its name", tree, 4 << 10, nil, true, model.Decides},
	} {
		file := smallModel()
		file.CurveSets[0].Verified = []model.Verified{c.verified}
		m, err := model.Compile("small", file)
		if err != nil {
			t.Fatal(err)
		}
		choice, why := m.For(nccl.Comm{Nodes: 2, Ranks: 8}).Choose(nccl.Call{Coll: nccl.CollAllReduce, Bytes: c.bytes},
			costsOf(c.costs))
		if choice.Verified != c.holds ||
			c.holds && (why != c.why || math.Abs(choice.Micros()-c.verified.Micros) > 1e-9 ||
				math.Abs(choice.Default.Micros()-20) > 1e-9) {
			t.Errorf("%s: %+v, %q; want verified %v, %q", c.name, choice, why, c.holds, c.why)
		}
		if gain := 1 - c.verified.Micros/20; c.holds && math.Abs(choice.Gain()-gain) > 1e-9 {
			t.Errorf("%s: gain %g, want %g", c.name, choice.Gain(), gain)
		}
	}
}

// Candidates shows what Choose chooses from: the first one is what it takes, and each of the others says what keeps
// it from being chosen. Expect and Predict say the same of one configuration.
func TestCandidates(t *testing.T) {
	file := smallModel()
	ring := &file.CurveSets[0].Curves[1]
	ring.Measured = [][2]float64{{1 << 10, 13}, {4 << 10, 21}} // 2 channels, not as large as that
	m, err := model.Compile("small", file)
	if err != nil {
		t.Fatal(err)
	}
	view := m.For(nccl.Comm{Nodes: 2, Ranks: 8})
	const coll, bytes = nccl.CollAllReduce, 16 << 10
	for _, c := range []struct {
		name  string
		costs nccl.Costs
		want  map[string]model.Bar
	}{
		{"all offered", costsOf(nil), map[string]model.Bar{"ring 8": model.BarNone, "tree 4": model.BarNone,
			"ring 2": model.BarSize, "nvls 16": model.BarChannels}},
		{"ring guarded", costsOf(func(c []float32) { c[5] = 2000 }), map[string]model.Bar{"ring 8": model.BarGuarded,
			"tree 4": model.BarNone, "ring 2": model.BarGuarded, "nvls 16": model.BarChannels}},
		{"no tree", costsOf(func(c []float32) { c[0] = -1 }), map[string]model.Bar{"ring 8": model.BarNone,
			"tree 4": model.BarNotOffered, "ring 2": model.BarSize, "nvls 16": model.BarChannels}},
	} {
		all := view.Candidates(nccl.Call{Coll: coll, Bytes: bytes}, c.costs)
		if len(all) != len(c.want) {
			t.Fatalf("%s: %d candidates, want %d", c.name, len(all), len(c.want))
		}
		for i, one := range all {
			name := fmt.Sprintf("%s %d", one.Algo, one.Channels)
			if want, known := c.want[name]; !known || one.Bar != want ||
				(one.Bar.String() == "") != (want == model.BarNone) {
				t.Errorf("%s: %s is barred by %q, want %q", c.name, name, one.Bar, want)
			}
			if before := all[max(0, i-1)]; i > 0 && before.Bar == one.Bar && before.Micros() > one.Micros() {
				t.Errorf("%s: %s stands behind a slower one", c.name, name)
			}
			predicted := view.Predict(nccl.Call{Coll: coll, Bytes: bytes}, one.Config)
			if predicted.Unknown() != one.Unknown() || !predicted.Unknown() && predicted != one.Time {
				t.Errorf("%s: %s is predicted to take %v, as a candidate %v", c.name, name, predicted, one.Time)
			}
		}
		chosen, _ := view.Choose(nccl.Call{Coll: coll, Bytes: bytes}, c.costs)
		if fastest := view.Fastest(nccl.Call{Coll: coll, Bytes: bytes},
			c.costs); !(fastest.LnMicros <= chosen.LnMicros) {
			t.Errorf("%s: %+v is called the fastest, chosen is %+v", c.name, fastest, chosen)
		}
		if first := all[0]; first.Config != chosen.Config || first.LnMicros != chosen.LnMicros {
			t.Errorf("%s: the first is %+v, chosen is %+v", c.name, first, chosen)
		}
		expected, ok := view.Expect(nccl.Call{Coll: coll, Bytes: bytes}, c.costs, chosen.Config)
		if !ok || expected.LnMicros != chosen.LnMicros {
			t.Errorf("%s: expected are %+v, %v of %+v", c.name, expected, ok, chosen)
		}
	}
	if all := view.Candidates(nccl.Call{Coll: coll, Bytes: 1 << 30}, costsOf(nil)); all != nil {
		t.Errorf("beyond the sizes measured: %+v", all)
	}
	call := nccl.Call{Coll: coll, Bytes: bytes}
	ringSimple2 := nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoSimple}, Channels: 2}
	if _, ok := view.Expect(call, costsOf(nil), ringSimple2); ok {
		t.Error("expected of a configuration that was not measured at such sizes")
	}
	ringLL128 := nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL128}, Channels: 8}
	if !view.Predict(call, ringLL128).Unknown() {
		t.Error("predicted of a configuration that was not measured")
	}
}
