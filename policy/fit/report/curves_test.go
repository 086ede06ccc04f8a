package report

import (
	"math"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// Two configurations share the sizes, a third is never the fastest. Ring with NCCL's own count at 2KiB is what NCCL
// chose by itself, and at 8KiB that was faster: it wins at 4KiB alone.
func TestRanked(t *testing.T) {
	measured := func(algo, proto string, channels int, from uint64, us ...float64) model.Curve {
		c := model.Curve{Algo: algo, Proto: proto, Channels: channels}
		for i := range us {
			c.Measured = append(c.Measured, [2]float64{float64(from) * math.Exp2(float64(i)), us[i]})
		}
		return c
	}
	m, err := model.Compile("m.json", &model.File{Format: model.Format, Version: model.Version, CurveSets: []model.CurveSet{{
		Coll: "allreduce", Comm: nccl.Comm{Nodes: 2, Ranks: 4}, Noise: 0.1,
		Curves: []model.Curve{
			measured("ring", "simple", 0, 2048, 20, 30, 40),
			measured("tree", "ll", 4, 1024, 10, 30, 60, 100), measured("tree", "ll", 8, 1024, 12, 40, 90, 120),
		},
		Default: []model.DefaultPoint{
			{Bytes: 1024, Micros: 11}, {Bytes: 2048, Micros: 21, Algo: "ring", Proto: "simple", Channels: 2},
			{Bytes: 8192, Micros: 32, Algo: "ring", Proto: "simple", Channels: 2},
		},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	g := &m.File.CurveSets[0]
	all := ranked(m, g)
	for i, want := range []struct {
		name string
		wins int
	}{{"ring/simple", 1}, {"tree/ll 4 ch", 1}, {"tree/ll 8 ch", 0}} {
		if c := all[i]; c.Config.String() != want.name || c.Wins != want.wins {
			t.Errorf("%d: %s wins %d, want %s with %d", i, c.Config, c.Wins, want.name, want.wins)
		}
	}
	// Close enough for straight lines, through what was measured.
	if f := all[0].Fitted; len(f) != 17 || f[0][0] != 2048 || math.Abs(float64(f[8][1])-30) > 1e-9 || f[8][0] != 4096 {
		t.Errorf("fitted %v", f)
	}
	// At 8KiB NCCL's default is the fastest.
	if got, want := float64(all[1].Behind), (math.Log(1.5)+math.Log(2)+math.Log(100./32))/4; math.Abs(got-want) > 1e-12 {
		t.Errorf("behind by %g, want %g", got, want)
	}
	var byDefault curve
	byDefault.fillDefault(m, g)
	fitted := byDefault.Fitted
	if len(fitted) != 25 {
		t.Fatalf("default %v", fitted)
	}
	// Between two sizes with one label it goes the way of that one's curve, moved to its own times.
	if f := fitted[16]; f[0] != 4096 || math.Abs(float64(f[1])-30*math.Sqrt(21./20*32/40)) > 1e-9 {
		t.Errorf("default %v between, all %v", f, fitted)
	}
	if key := g.Key(); key.Comm.String() != "2x2" {
		t.Errorf("%v", key)
	}
}
