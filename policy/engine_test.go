package policy

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

func compiled(t *testing.T, change func(*model.File)) *model.Model {
	t.Helper()
	f := smallModel()
	if change != nil {
		change(f)
	}
	m, err := model.Compile("small", f)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func rowsOf(t *testing.T, text string) *Policy {
	t.Helper()
	p, err := ReadCSV("p.csv", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Rows come first, also those that leave NCCL's choice; then the model; then NCCL.
func TestEngineOrder(t *testing.T) {
	rows := rowsOf(t, "allreduce,16384,16384,nvls,simple,3,2,8\nallreduce,8000,8200,default,-1,-1,2,8\n"+
		"allreduce,9000,9100,collnet_chain,simple,-1,2,8\n")
	for _, test := range []struct {
		name   string
		rows   *Policy
		model  *model.Model
		bytes  uint64
		by     By
		algo   nccl.Algo
		chosen int // channels
		why    model.Abstention
	}{
		{"a row", rows, compiled(t, nil), 16 << 10, ByRow, nccl.AlgoNVLS, 0, model.Decides},
		{"a row that leaves it to NCCL", rows, compiled(t, nil), 8100, ByRow, nccl.AlgoTree, 0, model.Decides},
		{"a row that asks for what is not there", rows, compiled(t, nil), 9050, ByModel, nccl.AlgoRing, 8,
			model.Decides},
		{"the model", rows, compiled(t, nil), 16000, ByModel, nccl.AlgoRing, 8, model.Decides},
		{"the model alone", nil, compiled(t, nil), 16 << 10, ByModel, nccl.AlgoRing, 8, model.Decides},
		{"the model abstains", rows, compiled(t, nil), 1 << 10, ByNCCL, nccl.AlgoTree, 0, model.AbstainBest},
		{"rows alone", rows, nil, 16000, ByNCCL, nccl.AlgoTree, 0, model.Decides},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := NewEngine(test.rows, test.model, nil)
			a := e.For(Comm{Comm: nccl.Comm{Nodes: 2, Ranks: 8}}).Decide(
				Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: test.bytes}, PipeOps: 1, Costs: costsOf(nil)})
			if a.By != test.by || a.Algo != test.algo || a.Channels != test.chosen || a.Abstention != test.why {
				t.Errorf("%+v", a)
			}
		})
	}
}

// What a model decides keeps to all that rows keep to, whatever the table.
func TestModelAnswersAreSafe(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	spoke, tries := 0, 20_000
	if testing.Short() {
		tries /= 10
	}
	for range tries {
		m := compiled(t, func(f *model.File) {
			g := &f.CurveSets[0]
			g.Curves[3].Channels = rng.IntN(2) * 16
			if rng.IntN(2) == 0 {
				g.Nodes, g.Ranks = 1, 4
			}
			if rng.IntN(3) == 0 {
				g.Default = nil
			}
		})
		g := m.File.CurveSets[0]
		costs := costsOf(func(c []float32) {
			for i := range c {
				switch rng.IntN(8) {
				case 0:
					c[i] = [...]float32{-1, -1024, 0, float32(math.NaN()), float32(math.Inf(1)), math.MaxFloat32,
						1e-45}[rng.IntN(7)]
				case 1:
					c[i] = float32(1 + rng.IntN(4))
				}
			}
		})
		costs.AvailableOnly = rng.IntN(10) == 0
		q := Query{Call: nccl.Call{Coll: nccl.Coll(rng.IntN(7) - 1), Bytes: rng.Uint64() >> rng.IntN(64)}, PipeOps: 1,
			Costs: costs}
		if rng.IntN(4) > 0 {
			q.Coll = nccl.CollAllReduce
			q.Bytes = 1<<10 + q.Bytes%(15<<10)
		}
		a := NewEngine(nil, m, nil).For(Comm{Comm: nccl.Comm{Nodes: g.Nodes, Ranks: g.Ranks}}).Decide(q)
		if a.By != ByModel {
			if a.Write || a.Channels != 0 || a.ChunkBytes != 0 {
				t.Fatalf("silent, and %+v", a)
			}
			continue
		}
		spoke++
		cell := costs.Index(a.Cell)
		if before := costs.Micros[cell]; !(before >= 0) || before >= math.MaxFloat32 {
			t.Fatalf("chose a cell of %g", before)
		}
		if a.Channels < 0 || a.Channels > 64 || a.Channels > 0 && a.Algo == nccl.AlgoNVLS && g.Nodes > 1 {
			t.Fatalf("%d channels for %v on %d nodes", a.Channels, a.Algo, g.Nodes)
		}
		if costs.AvailableOnly {
			continue
		}
		after := costs.Micros[cell]
		if a.Write {
			after = a.Micros
		}
		for i, other := range costs.Micros {
			if i != cell && available(other) && !(after < other) {
				t.Fatalf("chose cell %d at %g, cell %d costs %g", cell, after, i, other)
			}
		}
		if !(after > 0) && a.Write {
			t.Fatalf("wrote %g", after)
		}
	}
	if spoke < tries/20 {
		t.Errorf("spoke %d times only", spoke)
	}
}

// No positive cost beats a cell that costs nothing, and a choice between two that cost the same is
// not known.
func TestModelYieldsToOddTables(t *testing.T) {
	m := compiled(t, func(f *model.File) { f.CurveSets[0].Default = nil })
	for name, change := range map[string]func(c []float32){
		"free": func(c []float32) { c[0] = 0 },
		"tie":  func(c []float32) { c[1] = c[0] },
	} {
		a := NewEngine(nil, m, nil).For(Comm{Comm: nccl.Comm{Nodes: 2, Ranks: 8}}).Decide(
			Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 16 << 10}, Costs: costsOf(change)})
		if a.By != ByNCCL || a.Write || a.Channels != 0 || a.Abstention == model.Decides {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// What NCCL chose when measured, by a name that nobody noted, is what it chooses now.
func TestUnlabelledDefault(t *testing.T) {
	m := compiled(t, func(f *model.File) {
		for i := range f.CurveSets[0].Default {
			p := &f.CurveSets[0].Default[i]
			p.Algo, p.Proto, p.Channels = "", "", 0
		}
	})
	if _, why := m.For(nccl.Comm{Nodes: 2, Ranks: 8}).Choose(nccl.Call{Coll: nccl.CollAllReduce, Bytes: 16 << 10},
		costsOf(func(c []float32) { c[1] = 0.5 })); why != model.Decides {
		t.Errorf("silent: %s", why)
	}
}

// The digest is of what decides, and nothing else.
func TestEngineDigest(t *testing.T) {
	rows, fitted := rowsOf(t, "allreduce,1,2,ring,ll,3,2,8\n"), compiled(t, nil)
	if NewEngine(rows, nil, nil).Digest != rows.Digest {
		t.Error("a policy alone has another digest than its own")
	}
	if NewEngine(nil, fitted, nil).Digest != fitted.Digest() {
		t.Error("a model alone has another digest than its own")
	}
	both := NewEngine(rows, fitted, nil).Digest
	if both == rows.Digest || both == fitted.Digest() {
		t.Error("a policy and a model have the digest of one")
	}
	away := compiled(t, func(f *model.File) {
		f.Provenance.Topology = &topo.Machine{Fingerprint: "0123456789abcdef"}
	})
	if NewEngine(rows, away, nil).Digest != rows.Digest {
		t.Error("a model that is not used counts")
	}
}

// A condition on the topology sees the machine's, and the digest tells machines apart that a
// condition may tell apart.
func TestEngineTopology(t *testing.T) {
	rows := rowsOf(t, "collective,algorithm,protocol,when\nallreduce,ring,simple,topo.gpus == 4\n")
	by := func(here *topo.Machine) (By, identity.Digest) {
		e := NewEngine(rows, nil, here)
		return e.For(Comm{Comm: nccl.Comm{Nodes: 2, Ranks: 8}}).Decide(
			Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 1}, PipeOps: 1, Costs: costsOf(nil)}).By, e.Digest
	}
	seen := map[identity.Digest]bool{}
	for _, test := range []struct {
		here *topo.Machine
		want By
	}{{nil, ByNCCL}, {machineOf(t, sameKind, topo.Summary{GPUs: 4}), ByRow},
		{machineOf(t, sameKind, topo.Summary{GPUs: 8}), ByNCCL}} {
		got, digest := by(test.here)
		if got != test.want || seen[digest] {
			t.Errorf("%+v: by %d, want %d, or a digest that another machine has", test.here, got, test.want)
		}
		seen[digest] = true
	}
	kind := rowsOf(t, "collective,algorithm,protocol,when\nallreduce,ring,simple,topo.fingerprint == '"+sameKind+"'\n")
	for fingerprint, want := range map[string]bool{sameKind: true, otherKind: false} {
		here := machineOf(t, fingerprint, topo.Summary{GPUs: 4})
		e := NewEngine(kind, nil, here)
		if e.For(Comm{Comm: nccl.Comm{Nodes: 2, Ranks: 8}}).Rows().Empty() == want {
			t.Errorf("on %s the row is used: %t", fingerprint, !want)
		}
		if same := e.Digest == NewEngine(kind, nil, machineOf(t, sameKind, topo.Summary{GPUs: 4})).Digest; same != want {
			t.Errorf("the digest tells %s apart: %t", fingerprint, !same)
		}
		if NewEngine(rows, nil, here).Digest != NewEngine(rows, nil, machineOf(t, sameKind, topo.Summary{GPUs: 4})).Digest {
			t.Error("the fingerprint counts where no condition asks for it")
		}
	}
	if plain := rowsOf(t, "allreduce,1,2,ring,ll,3,2,8\n"); NewEngine(plain, nil,
		machineOf(t, sameKind, topo.Summary{})).Digest != plain.Digest {
		t.Error("the machine counts where no condition asks for it")
	}
}

func BenchmarkEngine(b *testing.B) {
	p, err := ReadCSV("steps.csv", steps(10_000))
	if err != nil {
		b.Fatal(err)
	}
	f := smallModel()
	f.CurveSets[0].Nodes, f.CurveSets[0].Ranks, f.CurveSets[0].Coll = 1, 8, "allgather"
	m, err := model.Compile("small", f)
	if err != nil {
		b.Fatal(err)
	}
	v := NewEngine(p, m, nil).For(Comm{Comm: nccl.Comm{Nodes: 1, Ranks: 8}})
	costs := costsOf(nil)
	b.ReportAllocs()
	for bytes := uint64(2000); b.Loop(); bytes = 2000 + bytes*7%14000 {
		v.Decide(Query{Call: nccl.Call{Coll: nccl.CollAllGather, Bytes: bytes}, PipeOps: 1, Costs: costs})
	}
}

// Where NCCL may use an AllGather's channel count unchecked, rows keep to the rest of what they ask
// for, and a model to configurations with NCCL's own count.
func TestUncheckedAllGather(t *testing.T) {
	file := smallModel()
	file.CurveSets[0].Coll = "allgather"
	m, err := model.Compile("m.json", file)
	if err != nil {
		t.Fatal(err)
	}
	p := rowsOf(t,
		"allgather,0,1024,ring,simple,8,-1,-1\nallgather,1025,2048,-1,-1,9,2,8\nallgather,1025,2048,-1,-1,9,3,24\n"+
			"any,2049,4096,tree,ll,7,-1,-1\nallreduce,0,inf,ring,simple,6,-1,-1\n"+
			"allgather,4097,8192,nvls,simple,5,-1,-1\nallgather,8193,9000,pat,simple,5,-1,-1\n")
	for _, unchecked := range []bool{false, true} {
		c := Comm{Comm: nccl.Comm{Nodes: 2, Ranks: 8}, NCCL: release("2.28.9")}
		if unchecked {
			c.NCCL = release("2.30.3-2.30")
		}
		own := func(channels int) int {
			if unchecked {
				return 0
			}
			return channels
		}
		v := NewEngine(p, m, nil).For(c)
		for _, test := range []struct {
			coll     nccl.Coll
			bytes    uint64
			by       By
			channels int
		}{{nccl.CollAllGather, 1024, ByRow, own(8)}, {nccl.CollAllGather, 2048, ByRow, own(9)},
			{nccl.CollAllReduce, 2048, ByRow, 6}} {
			a := v.Decide(Query{Call: nccl.Call{Coll: test.coll, Bytes: test.bytes}, PipeOps: 1, Costs: costsOf(nil)})
			if a.By != test.by || a.Channels != test.channels || test.bytes == 1024 && a.Algo != nccl.AlgoRing {
				t.Errorf("unchecked: %v, %s of %d: %+v", unchecked, test.coll, test.bytes, a)
			}
		}
		a := v.Decide(Query{Call: nccl.Call{Coll: nccl.CollAllGather, Bytes: 16 << 10}, PipeOps: 1,
			Costs: costsOf(nil)})
		if (a.By == ByModel) == unchecked || unchecked && a.Abstention != model.AbstainCells {
			t.Errorf("unchecked: %v, the model: %+v", unchecked, a)
		}
		rows, first, model := v.UncheckedAllGathers()
		if unchecked && (rows != 4 || first.Line != 1 || !model) || !unchecked && (rows != 0 || first != nil || model) {
			t.Errorf("unchecked: %v, %d rows, first %v, model %v", unchecked, rows, first, model)
		}
	}
}

// A row whose condition never holds for a communicator asks for nothing there.
func TestUncheckedAllGatherOfConditions(t *testing.T) {
	p := rowsOf(t, "collective,algorithm,protocol,channels,when\nallgather,ring,simple,8,ranks > 8\n"+
		"allgather,ring,simple,9,bytes > 8\n")
	rows, first, _ := NewEngine(p, nil, nil).For(Comm{Comm: nccl.Comm{Nodes: 1, Ranks: 8}, NCCL: release("2.30.7")}).
		UncheckedAllGathers()
	if rows != 1 || first.Channels != 9 {
		t.Errorf("%d rows, first %+v", rows, first)
	}
}

// A model decides for the minor versions of NCCL that were measured, and for all where that is not known.
func TestModelIsForTheReleaseMeasured(t *testing.T) {
	for _, test := range []struct {
		measured, is string // "": not known
		why          string // it has no answer; "": it has
	}{
		{"2.28.9", "2.28.9", ""}, {"2.28.9", "2.28.3", ""}, {"2.28.9", "2.28", ""},
		{"2.28.9", "2.30.7", "it is for NCCL 2.28, and this is 2.30.7"},
		{"2.28.9", "2.28-2.30", "it is for NCCL 2.28, and this is 2.28-2.30"},
		{"2.28.9", "", "it is for NCCL 2.28, and the release of this one is not known"},
		{"2.28.9, 2.30.7", "2.29.3", ""}, {"2.30.7, 2.28.9", "2.31.2", "it is for NCCL 2.28-2.30, and this is 2.31.2"},
		{"", "", ""}, {"", "2.31.2", ""}, {"RCCL 2.27.7", "2.31.2", ""}, {"2.28.9, RCCL 2.27.7", "", ""},
	} {
		m := compiled(t, func(f *model.File) { f.Provenance.NCCL = test.measured })
		c := Comm{Comm: nccl.Comm{Nodes: 2, Ranks: 8}}
		if test.is != "" {
			c.NCCL = release(test.is)
		}
		v := NewEngine(nil, m, nil).For(c)
		if v.ModelAbstains() != test.why || v.Empty() != (test.why != "") {
			t.Errorf("%+v: %q", test, v.ModelAbstains())
		}
		a := v.Decide(Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 16 << 10}, PipeOps: 1, Costs: costsOf(nil)})
		if (a.By == ByModel) != (test.why == "") || test.why != "" && a.Abstention != model.AbstainRelease {
			t.Errorf("%+v: %+v", test, a)
		}
		if _, known := v.NCCLChoice(nccl.Call{Coll: nccl.CollAllReduce, Bytes: 16 << 10}); known != (test.why == "") {
			t.Errorf("%+v: NCCL's choice as measured: %v", test, known)
		}
	}
}
