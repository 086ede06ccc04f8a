package curves

import (
	"math"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// Two configurations share the sizes, a third is never the fastest.
func TestRanked(t *testing.T) {
	curve := func(channels int, from, to uint64, us ...float64) model.Curve {
		c := model.Curve{Channels: channels, Min: from, Max: to}
		for i := range us {
			c.Measured = append(c.Measured, [2]float64{float64(from) * math.Exp2(float64(i)), us[i]})
			c.Micros, c.Sigma = append(c.Micros, us[i]), append(c.Sigma, 0.1)
		}
		return c
	}
	g := &model.Group{
		Coll: "allreduce", Nodes: 2, Ranks: 3, Axis: []uint64{1024, 2048, 4096},
		Families: []model.Family{
			{Algo: "tree", Proto: "ll", Curves: []model.Curve{curve(4, 1024, 4096, 10, 30, 60), curve(8, 1024, 4096, 12, 40, 90)}},
			{Algo: "ring", Proto: "simple", Curves: []model.Curve{curve(0, 2048, 4096, 20, 30)}},
		},
		Default: &model.Default{Measured: []model.DefaultPoint{{Bytes: 1024, Micros: 11}, {Bytes: 2048, Micros: 21, Algo: "ring", Proto: "ll", Channels: 2}}},
	}
	all, err := Ranked(g)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		name string
		wins int
	}{{"ring/simple", 2}, {"tree/ll 4 ch", 1}, {"tree/ll 8 ch", 0}} {
		if c := all[i]; c.Config.String() != want.name || c.Wins != want.wins {
			t.Errorf("%d: %s wins %d, want %s with %d", i, c.Config, c.Wins, want.name, want.wins)
		}
	}
	if f := all[0].Fitted; len(f) != 2 || f[0].Bytes != 2048 || f[1].Micros != 30 {
		t.Errorf("fitted %v", f)
	}
	if got, want := all[1].Behind, (math.Log(1.5)+math.Log(2))/3; math.Abs(got-want) > 1e-12 {
		t.Errorf("behind by %g, want %g", got, want)
	}
	if low, high := all[0].Fitted[0].Band(); math.Abs(low*high-400) > 1e-9 || high/20 < 1.17 || high/20 > 1.19 {
		t.Errorf("band %g to %g", low, high)
	}
	if points, labels := Default(g); len(points) != 2 || labels[0] != "" || labels[1] != "ring/ll 2 ch" {
		t.Errorf("default %v %q", points, labels)
	}
	if key, err := KeyOf(g); err != nil || nccl.CommName(key.Nodes, key.Ranks) != "3 ranks on 2 nodes" {
		t.Errorf("%v %v", key, err)
	}
}
