package model_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/hostile"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// smallModel has ring/simple with 2 and 8 channels, tree/ll with 4, nvls/simple with 16, at 1 KiB,
// 4 KiB and 16 KiB on 2 nodes of 4; the default is tree/ll.
func smallModel() *model.File {
	file := &model.File{}
	text, err := os.ReadFile("testdata/small.json")
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

func TestModelChooses(t *testing.T) {
	for _, test := range []struct {
		name         string
		change       func(*model.File)
		costs        func([]float32)
		nodes, ranks int
		coll         nccl.Coll
		bytes        uint64
		want         string
		why          model.Abstention
	}{
		{name: "the fastest", bytes: 16 << 10, want: "ring/simple 8"},
		{name: "the default is the fastest", bytes: 1 << 10, why: model.AbstainBest},
		{name: "half a percent is not worth it", bytes: 4 << 10, why: model.AbstainGain},
		{name: "between two sizes", bytes: 8 << 10, want: "ring/simple 8"},
		{name: "above the largest", bytes: 16<<10 + 1, why: model.AbstainSize},
		{name: "below the smallest", bytes: 1<<10 - 1, why: model.AbstainSize},
		{name: "not available", bytes: 16 << 10, costs: func(c []float32) { c[5] = -1 }, why: model.AbstainBest},
		{name: "nothing measured is available", bytes: 16 << 10,
			costs: func(c []float32) { c[0], c[5], c[14], c[1] = -1, -1, -1, 1 }, why: model.AbstainCells},
		{name: "precision guard", bytes: 16 << 10, costs: func(c []float32) { c[5] = 2000 }, why: model.AbstainBest},
		{name: "far from what was measured", bytes: 8 << 10, change: func(f *model.File) {
			f.CurveSets[0].Curves[1].Measured = [][2]float64{{1 << 10, 13}, {64 << 10, 51}}
			f.CurveSets[0].Curves[2].Measured = [][2]float64{{1 << 10, 13}, {64 << 10, 50}}
		}, why: model.AbstainGain},
		{name: "never measured that large", bytes: 16 << 10, change: func(f *model.File) {
			f.CurveSets[0].Curves[2].Measured = [][2]float64{{1 << 10, 13}, {4 << 10, 21}}
		}, want: "ring/simple 2"},
		{name: "the default not measured", bytes: 16 << 10, change: func(f *model.File) { f.CurveSets[0].Default = nil },
			want: "ring/simple 8"},
		{name: "nor what NCCL chooses now", bytes: 16 << 10, change: func(f *model.File) { f.CurveSets[0].Default = nil },
			costs: func(c []float32) { c[1] = 0.5 }, why: model.AbstainDefault},
		{name: "another collective", coll: nccl.CollReduce, bytes: 16 << 10, why: model.AbstainColl},
		{name: "one node", nodes: 1, ranks: 4, bytes: 16 << 10, why: model.AbstainOneNode},
		{name: "other ranks per node", nodes: 2, ranks: 4, bytes: 16 << 10, why: model.AbstainPerNode},
		{name: "more nodes", nodes: 4, ranks: 16, bytes: 16 << 10, why: model.AbstainNodes},
		{name: "channels that can be set", nodes: 1, ranks: 4, bytes: 4 << 10,
			change: func(f *model.File) { f.CurveSets[0].Nodes, f.CurveSets[0].Ranks = 1, 4 }, want: "nvls/simple 16"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := smallModel()
			if test.change != nil {
				test.change(file)
			}
			m, err := model.Compile("small", file)
			if err != nil {
				t.Fatal(err)
			}
			nodes, ranks, coll := 2, 8, nccl.CollAllReduce
			if test.nodes > 0 {
				nodes, ranks = test.nodes, test.ranks
			}
			if test.coll != 0 {
				coll = test.coll
			}
			c, why := m.For(nccl.Comm{Nodes: nodes, Ranks: ranks}).Choose(nccl.Call{Coll: coll, Bytes: test.bytes},
				costsOf(test.costs))
			if got := fmt.Sprintf("%s/%s %d", c.Algo, c.Proto, c.Channels); why != test.why ||
				why == model.Decides && got != test.want {
				t.Errorf("%s (%q), want %s (%q)", got, why, test.want, test.why)
			}
		})
	}
}

func TestModelFileErrors(t *testing.T) {
	good, err := json.Marshal(smallModel())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := model.Read("m.json", good); err != nil {
		t.Fatal(err)
	}
	verified := func(bytes, channels int, micros float64, repetitions int) string {
		return fmt.Sprintf(`"noise":0.01,"verified":[{"bytes":%d,"algorithm":"ring","protocol":"simple",`+
			`"channels":%d,"us":%g,"default_us":20,"repetitions":%d}]`, bytes, channels, micros, repetitions)
	}
	for _, test := range []struct{ old, new, want string }{
		{`"noise":0.01`, verified(0, 8, 15, 1), "m.json: groups[0].verified[0].bytes: 0 does not ascend"},
		{`"noise":0.01`, verified(4096, 65, 15, 1), "m.json: groups[0].verified[0].channels: 65 (allowed: 0 to 64)"},
		{`"noise":0.01`, verified(4096, 8, 21, 1), "m.json: groups[0].verified[0]: 21 us instead of 20 (allowed: "},
		{`"noise":0.01`, verified(4096, 8, 15, 0), "m.json: groups[0].verified[0].repetitions: 0 (allowed: 1 or more)"},
		{`"version":3`, `"version":4`, "m.json: version: 4 is not known"},
		{`"version":3,`, `"version":2,"scales":true,`,
			"m.json: version: 2 is not known (allowed: 3; fit the model anew with tunefit fit)"},
		{model.Format, "something", `m.json: format: "something" is not a cost model`},
		{`"collective":"allreduce"`, `"collective":"allreduc"`,
			`m.json: groups[0].collective: unknown collective "allreduc" (did you mean "allreduce"`},
		{`"algorithm":"ring"`, `"algorithm":"rign"`,
			`m.json: groups[0].curves[1].algorithm: unknown algorithm "rign" (did you mean "ring"`},
		{`"channels":8`, `"channels":65`, "m.json: groups[0].curves[2].channels: 65 (allowed: 0 to 64)"},
		{`"channels":8`, `"channels":2`,
			"m.json: groups[0].curves[2]: ring/simple with 2 channels has a curve already"},
		{`[4096,21]`, `[4096,-21]`, "m.json: groups[0].curves[2].measured[1]: -21 us (allowed: above 0)"},
		{`[4096,21]`, `[4096,1e999]`, "m.json:1:671: groups.curves.measured: number 1e999 "},
		{`[4096,21]`, `[1024,21]`, "m.json: groups[0].curves[2].measured[1]: 1024 bytes do not ascend"},
		{`[4096,21]`, `[0.5,21]`, "m.json: groups[0].curves[2].measured[1]: 0.5 is not a size (allowed: 1 to 2^50)"},
		{`"bytes":1024`, `"bytes":8192`, "m.json: groups[0].default[1]: 4096 bytes do not ascend"},
		{`"noise":0.01`, `"noise":0`, "m.json: groups[0].noise: 0 "},
		{`"provenance":{}`, `"provenance":{"topology":{"fingerprint":"x","summary":{}}}`,
			`m.json: provenance.topology.fingerprint: "x" is no topology fingerprint (want 16 hexadecimal digits`},
		{`"nodes":2`, `"knots":2`, `unknown field "knots"`},
		{`"nodes":2`, `"nodes":"two"`, "m.json:1:114: groups.nodes: string where a int is needed"},
	} {
		text := strings.Replace(string(good), test.old, test.new, 1)
		if text == string(good) {
			t.Errorf("%s is not in the file", test.old)
		}
		if _, err := model.Read("m.json", []byte(text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v\nwant %s", test.new, err, test.want)
		}
	}
	for n := range good {
		if _, err := model.Read("m.json", good[:n]); err == nil {
			t.Fatalf("cut after %d bytes the file is accepted", n)
		}
	}
}

// Whatever decisions depend on is checked: each such field of a file is replaced by a value that it cannot have, and the
// error names the field.
func TestEachFieldIsChecked(t *testing.T) {
	file := smallModel()
	file.CurveSets[0].Verified = []model.Verified{{Bytes: 4 << 10, Algo: "ring", Proto: "simple", Channels: 8, Micros: 15,
		DefaultMicros: 20, Repetitions: 4}}
	file.Provenance.Topology = &topo.Machine{Fingerprint: "0123456789abcdef"}
	good, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(good, &tree); err != nil {
		t.Fatal(err)
	}
	people := map[string]bool{"repetition_pairs": true, "summary": true}
	tried := 0
	var visit func(path string, value any, set func(any))
	try := func(path string, wrong any, old any, set func(any)) {
		set(wrong)
		text, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		set(old)
		tried++
		if _, err := model.Read("m.json", text); err == nil {
			t.Errorf("%s: %v instead of %v is accepted", path, wrong, old)
		} else if field := path[strings.LastIndex(path, ".")+1:]; !strings.Contains(err.Error(), strings.TrimRight(field,
			"[0123456789]")) {
			// Some errors name what holds the field, as a point of a curve.
			if of, _, _ := strings.Cut(path, "."+field); !strings.Contains(err.Error(), of) {
				t.Errorf("%s: the error does not name it: %v", path, err)
			}
		}
	}
	visit = func(path string, value any, set func(any)) {
		switch value := value.(type) {
		case map[string]any:
			for key, v := range value {
				if !people[key] {
					visit(strings.TrimPrefix(path+"."+key, "."), v, func(v any) { value[key] = v })
				}
			}
		case []any:
			for i, v := range value {
				visit(fmt.Sprintf("%s[%d]", path, i), v, func(v any) { value[i] = v })
			}
		case string:
			try(path, value+"x", value, set)
		case float64:
			try(path, -1.0, value, set)
		}
	}
	visit("", tree, nil)
	if tried < 60 {
		t.Errorf("only %d fields were tried", tried)
	}
}

// What only people read does not make two models differ.
func TestModelDigest(t *testing.T) {
	digestOf := func(change func(*model.File)) identity.Digest {
		f := smallModel()
		change(f)
		m, err := model.Compile("m", f)
		if err != nil {
			t.Fatal(err)
		}
		return m.Digest()
	}
	first := digestOf(func(*model.File) {})
	if first != digestOf(func(f *model.File) {
		f.Provenance.NCCL = "RCCL 2.27.7"
		f.CurveSets[0].HeldOut = []model.Trial{{Score: model.Score{Mean: 1}}}
	}) {
		t.Error("provenance changes the digest")
	}
	measured := func(with string) identity.Digest {
		return digestOf(func(f *model.File) { f.Provenance.NCCL = with })
	}
	if measured("2.30.3") != measured("2.30.7") || measured("2.30.7") == measured("2.28.9") ||
		measured("2.30.7") == first {
		t.Error("the digest does not cover the releases that the model is for")
	}
	if first == digestOf(func(f *model.File) { f.CurveSets[0].Curves[0].Measured[1][1] = 20.01 }) {
		t.Error("a time does not change the digest")
	}
}

// A file that tunefit fit wrote stays readable for as long as its version is.
func TestReadFittedModel(t *testing.T) {
	m, err := model.Read(fittedModel, fittedText(t))
	if err != nil || len(m.File.CurveSets) != 1 || m.File.Provenance.Topology == nil {
		t.Errorf("%+v, %v", m, err)
	}
}

// fittedModel was made from policy/fit/testdata/small.csv and configs/topo/dgx-h100.xml.
const fittedModel = "../testdata/model.json"

func fittedText(t testing.TB) []byte {
	text, err := os.ReadFile(fittedModel)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func FuzzReadModel(f *testing.F) {
	f.Add(fittedText(f))
	good, _ := json.Marshal(smallModel())
	f.Add(good)
	f.Add([]byte(`{"format":"nccl-tuner-go cost model","version":3,"groups":[{}]}`))
	home := smallModel()
	home.Provenance.Topology = &topo.Machine{Fingerprint: "aaaaaaaaaaaaaaaa"}
	good, _ = json.Marshal(home)
	f.Add(good)
	here := topo.Machine{Fingerprint: "aaaaaaaaaaaaaaaa", Summary: topo.Summary{GPUs: 4, IntraBW: 300, NetBW: 50, NetLatency: 1}}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := model.Read("m.json", text)
		if err != nil {
			return
		}
		e := policy.NewEngine(nil, m, &here)
		for _, g := range m.File.CurveSets {
			here := e.For(policy.Comm{Comm: nccl.Comm{Nodes: g.Nodes, Ranks: g.Ranks}})
			for _, b := range append(g.Sizes(), 1, 5000, math.MaxUint64) {
				a := here.Decide(policy.Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: b}, PipeOps: 1,
					Costs: costsOf(nil)})
				if a.Channels < 0 || a.Channels > 64 || a.Write && !(a.Micros > 0 && a.Micros <= 3) {
					t.Errorf("%+v", a)
				}
			}
			v := m.For(g.Comm)
			for _, b := range append(g.Sizes(), 1, 5000, math.MaxUint64) {
				for coll := range nccl.Coll(nccl.NumColls) {
					if c, why := v.Choose(nccl.Call{Coll: coll, Bytes: b}, costsOf(nil)); why == model.Decides &&
						(c.Algo < 0 || c.Channels < 0 || c.Channels > 64) {
						t.Errorf("%+v", c)
					}
				}
			}
		}
	})
}

func BenchmarkWorstReadModel(b *testing.B) {
	const (
		head  = `{"format":"nccl-tuner-go cost model","version":3,`
		group = head + `"groups":[{"collective":"allreduce","nodes":1,"ranks":8,"noise":0.1,`
	)
	hostile.Benchmark(b, func(text []byte) error {
		_, err := model.Read("m.json", text)
		return err
	},
		hostile.Text{Head: head + `"groups":[`, Unit: `{"nodes":%d},`, Tail: "{}]}"},
		hostile.Text{Head: head + `"groups":[{"collective":"`, Unit: "x", Tail: `"}]}`},
		hostile.Text{Head: head + `"groups":[{"noise":`, Unit: "1", Tail: "}]}"},
		hostile.Text{Head: head + `"`, Unit: "x", Tail: `":1}`},
		hostile.Text{Head: group + `"curves":[`, Unit: `{"channels":%d},`, Tail: "{}]}]}"},
		hostile.Text{Head: group + `"curves":[{"measured":[`, Unit: "[%d,1],", Tail: "[1,1]]}]}]}"},
		hostile.Text{Head: group + `"verified":[`, Unit: `{"bytes":%d},`, Tail: "{}]}]}"},
		hostile.Text{Head: head + `"provenance":{"topology":{"fingerprint":"`, Unit: "1", Tail: `"}}}`},
	)
}

// A new shape costs a decision; the model's share of the 10 us it may take.
func BenchmarkModelChoose(b *testing.B) {
	for _, configs := range []int{54, 960} {
		b.Run(fmt.Sprint(configs), func(b *testing.B) {
			file := smallModel()
			g := &file.CurveSets[0]
			g.Curves, g.Default = nil, nil
			var measured [][2]float64
			for k := range 18 {
				bytes, us := uint64(1024)<<k, float64(10+k)
				measured = append(measured, [2]float64{float64(bytes), us})
				g.Default = append(g.Default, model.DefaultPoint{bytes, us, "tree", "ll", 4})
			}
			families := 15
			for i := range families {
				for c := 1; c <= (configs+families-1)/families; c++ {
					g.Curves = append(g.Curves, model.Curve{
						Algo: nccl.Algo(i / 3).String(), Proto: nccl.Proto(i % 3).String(), Channels: c,
						Measured: measured,
					})
				}
			}
			m, err := model.Compile("bench", file)
			if err != nil {
				b.Fatal(err)
			}
			v := m.For(nccl.Comm{Nodes: 2, Ranks: 8})
			costs := costsOf(func(c []float32) {
				for i := range c {
					c[i] = float32(i)
				}
			})
			b.ReportAllocs()
			for bytes := uint64(5000); b.Loop(); bytes = 5000 + bytes*7%100_000_000 {
				v.Choose(nccl.Call{Coll: nccl.CollAllReduce, Bytes: bytes}, costs)
			}
		})
	}
}
