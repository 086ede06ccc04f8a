package model_test

import (
	"math"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// NCCL's choice is told where it was measured, and nowhere else.
func TestOwnChoice(t *testing.T) {
	fileOf := func(points ...model.DefaultPoint) *model.File {
		file := smallModel()
		g := &file.CurveSets[0]
		g.Default = points
		g.Curves = []model.Curve{{Algo: "ring", Proto: "simple", Channels: 8,
			Measured: [][2]float64{{4 << 10, 30}, {64 << 10, 30}}}}
		return file
	}
	tree, ring := model.DefaultPoint{4 << 10, 10, "tree", "ll", 2}, model.DefaultPoint{64 << 10, 40, "ring",
		"simple", 8}
	wider := model.DefaultPoint{64 << 10, 40, "tree", "ll", 4}
	nameless := model.DefaultPoint{Bytes: 64 << 10, Micros: 40}
	const none = nccl.Algo(-1)
	for _, c := range []struct {
		name     string
		file     *model.File
		bytes    uint64
		known    bool
		algo     nccl.Algo
		channels int
		micros   float64
	}{
		{"where it was measured", fileOf(tree, ring), 4 << 10, true, nccl.AlgoTree, 2, 10},
		{"at the other end", fileOf(tree, ring), 64 << 10, true, nccl.AlgoRing, 8, 40},
		{"before the first", fileOf(tree, ring), 4<<10 - 1, false, 0, 0, 0},
		{"after the last", fileOf(tree, ring), 64<<10 + 1, false, 0, 0, 0},
		{"nearer to the lower one, whose curve is not known", fileOf(tree, ring), 8 << 10, true, nccl.AlgoTree, 0,
			math.Sqrt(10 * 20)},
		{"nearer to the upper one", fileOf(tree, ring), 32 << 10, true, nccl.AlgoRing, 0, math.Sqrt(20 * 40)},
		{"between two of one kind", fileOf(tree, wider), 32 << 10, true, nccl.AlgoTree, 0, math.Sqrt(20 * 40)},
		{"beside one without a name", fileOf(tree, nameless), 4<<10 + 1, true, none, 0, 10},
		{"by the curve of NCCL's own channel count", func() *model.File {
			f := fileOf(model.DefaultPoint{4 << 10, 10, "ring", "simple", 8}, ring)
			f.CurveSets[0].Curves[0].Channels, f.CurveSets[0].Curves[0].Measured = 0,
				[][2]float64{{4 << 10, 20}, {16 << 10, 60}, {64 << 10, 80}}
			return f
		}(), 16 << 10, true, nccl.AlgoRing, 8, 30},
		{"no default", func() *model.File { f := fileOf(tree, ring); f.CurveSets[0].Default = nil; return f }(), 4 << 10,
			false, 0, 0, 0},
	} {
		m, err := model.Compile("m.json", c.file)
		if err != nil {
			t.Fatal(err)
		}
		g := c.file.CurveSets[0]
		choice, known := m.For(g.Comm).NCCLChoice(nccl.Call{Coll: nccl.CollAllReduce, Bytes: c.bytes})
		if known != c.known {
			t.Errorf("%s: known: %v", c.name, known)
			continue
		}
		if known && (choice.Algo != c.algo || choice.Channels != c.channels ||
			math.Abs(choice.Micros()/c.micros-1) > 0.001) {
			t.Errorf("%s: %+v, %g us", c.name, choice, choice.Micros())
		}
		if _, known := m.For(g.Comm).NCCLChoice(nccl.Call{Coll: nccl.CollAllGather, Bytes: c.bytes}); known {
			t.Errorf("%s: known of another collective", c.name)
		}
	}
	if _, known := (&policy.EngineView{}).NCCLChoice(nccl.Call{Coll: nccl.CollAllReduce, Bytes: 4 << 10}); known {
		t.Error("known without a model")
	}
}

// A table can be made one from which NCCL chooses a cell, whatever it was.
func TestChoosing(t *testing.T) {
	costs := costsOf(func(micros []float32) {
		for i := range micros {
			micros[i] = float32(10 + i)
		}
		micros[int(nccl.AlgoNVLS)*3+int(nccl.ProtoSimple)] = -1
	})
	for _, c := range []nccl.Cell{
		{Algo: nccl.AlgoTree, Proto: nccl.ProtoLL},
		{Algo: nccl.AlgoRing, Proto: nccl.ProtoSimple},
		{Algo: nccl.AlgoNVLS, Proto: nccl.ProtoSimple},
	} {
		got := costs.Choosing(c)
		if choice, tied := got.NCCLChoice(); tied || choice != c {
			t.Errorf("%v: NCCL chooses %v", c, choice)
		}
		for i := range costs.Micros {
			if i != int(c.Algo)*3+int(c.Proto) && got.Micros[i] != costs.Micros[i] {
				t.Errorf("%v: cell %d is %g, was %g", c, i, got.Micros[i], costs.Micros[i])
			}
		}
	}
	if costs.Micros[int(nccl.AlgoRing)*3+int(nccl.ProtoSimple)] != 15 {
		t.Error("the table given was changed")
	}
	costs.Micros[0] = 0
	ringLL := nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL}
	if choice, _ := costs.Choosing(ringLL).NCCLChoice(); choice.Algo != nccl.AlgoTree {
		t.Error("no positive cost beats 0")
	}
}

// NCCL's choice of algorithm and protocol with NCCL's choice channels is NCCL's choice, however
// fast a repetition of it was.
func TestOwnChannelsAreTheDefault(t *testing.T) {
	for channels, want := range map[int]model.Abstention{0: model.AbstainBest, 8: model.AbstainBest,
		16: model.Decides} {
		file := smallModel()
		g := &file.CurveSets[0]
		g.Default = []model.DefaultPoint{{4 << 10, 40, "ring", "simple", 8}, {64 << 10, 40, "ring", "simple", 8}}
		g.Curves = []model.Curve{{Algo: "ring", Proto: "simple", Channels: channels,
			Measured: [][2]float64{{4 << 10, 30}, {64 << 10, 30}}}}
		m, err := model.Compile("m.json", file)
		if err != nil {
			t.Fatal(err)
		}
		for _, bytes := range []uint64{4 << 10, 8 << 10} {
			if choice, why := m.For(g.Comm).Choose(nccl.Call{Coll: nccl.CollAllReduce, Bytes: bytes},
				nccl.Everything()); why != want {
				t.Errorf("%d channels at %d bytes: %+v, %q, want %q", channels, bytes, choice, why, want)
			}
		}
	}
}

// What won a verification needs its channels, at whatever size that was.
func TestFloorsOfVerifiedSizes(t *testing.T) {
	file := smallModel()
	g := &file.CurveSets[0]
	g.Default = []model.DefaultPoint{{4 << 10, 40, "ring", "simple", 8}, {64 << 10, 40, "ring", "simple", 8}}
	g.Curves = []model.Curve{{Algo: "ring", Proto: "simple", Channels: 16, Floored: true,
		Measured: [][2]float64{{4 << 10, 40}, {64 << 10, 40}}}}
	for _, verified := range [][]model.Verified{nil,
		{{Bytes: 4200, Algo: "ring", Proto: "simple", Channels: 16, Micros: 30, DefaultMicros: 40, Repetitions: 2}}} {
		g.Verified = verified
		m, err := model.Compile("m.json", file)
		if err != nil {
			t.Fatal(err)
		}
		var want nccl.Floors
		if verified != nil {
			want.Add(nccl.AlgoRing, 16)
		}
		if got := m.Floors(); got != want {
			t.Errorf("verified %v: %+v, want %+v", verified, got, want)
		}
	}
}
