package doctor

import (
	"encoding/json"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// A policy or a model whose channels were measured only under NCCL_MIN_NCHANNELS does not do what it promises in a
// job without it.
func TestDoctorFloors(t *testing.T) {
	policyOf := func(f nccl.Floors, row string) string {
		return tuner.EnvConfigFile + "=" + testlib.File(t, "p.csv", "# "+nccl.Remark(nccl.RemarkNeeds, f.String(), "")+"\n"+row+"\n")
	}
	modelOf := func(algo string, floored bool) string {
		g := model.CurveSet{Coll: "allreduce", Comm: nccl.Comm{Nodes: 1, Ranks: 8}, Noise: 0.01}
		g.Default = []model.DefaultPoint{{Bytes: 1024, Micros: 20}, {Bytes: 4096, Micros: 20}}
		for channels, us := range map[int]float64{8: 15, 32: 10, 64: 90} {
			g.Curves = append(g.Curves, model.Curve{
				Algo: algo, Proto: "simple", Channels: channels, Floored: floored,
				Measured: [][2]float64{{1024, us}, {4096, us}},
			})
		}
		text, err := json.Marshal(&model.File{Format: model.Format, Version: model.Version, CurveSets: []model.CurveSet{g}})
		if err != nil {
			t.Fatal(err)
		}
		return tuner.EnvModelFile + "=" + testlib.File(t, "m.json", string(text))
	}
	ring, nvls := policyOf(nccl.Floors{Channels: 32}, "allreduce,0,inf,ring,simple,32,-1,-1"),
		policyOf(nccl.Floors{CTAs: 24}, "allreduce,0,inf,nvls,simple,24,1,-1")
	for _, c := range []struct {
		file, variable string
		needs          string // "": nothing
	}{
		{ring, "", "NCCL_MIN_NCHANNELS=32"},
		{ring, "NCCL_MIN_NCHANNELS=16", "NCCL_MIN_NCHANNELS=32"},
		{ring, "NCCL_MIN_NCHANNELS=32", ""},
		{ring, "NCCL_MIN_NRINGS=40", ""},
		{ring, "NCCL_MIN_CTAS=32", ""},
		{nvls, "NCCL_MIN_NCHANNELS=32", "NCCL_MIN_CTAS=24"},
		{nvls, "NCCL_MIN_CTAS=24", ""},
		{tuner.EnvConfigFile + "=" + testlib.File(t, "p.csv", "allreduce,0,inf,ring,simple,32,-1,-1\n"), "", ""},
		{modelOf("ring", true), "", "NCCL_MIN_NCHANNELS=32"}, // 64 are never chosen
		{modelOf("ring", true), "NCCL_MIN_NCHANNELS=32", ""},
		{modelOf("nvls", true), "NCCL_MIN_NCHANNELS=32", "NCCL_MIN_CTAS=32"},
		{modelOf("ring", false), "", ""},
	} {
		t.Log(c.file, c.variable)
		d := testDoctor(t, c.file, c.variable)
		found := d.examine(t.Context(), only("files"))
		if c.needs != "" {
			mustFind(t, found, "files", isWarning, " needs "+c.needs+",", "tunefit sweep")
		} else if Failed(found) {
			t.Errorf("%v", found)
		}
	}
}
