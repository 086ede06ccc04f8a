package policy

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// oddMicros are costs that no cost model should give and a table may still hold.
var oddMicros = []float32{0, -0.5, -1, math.SmallestNonzeroFloat32, math.MaxFloat32, float32(math.Inf(1)),
	float32(math.NaN())}

// available: NCCL may choose a cell of that cost.
func available(micros float32) bool { return micros >= 0 && micros < math.MaxFloat32 }

// anyCosts draws a table of either size that NCCL has had, with believable costs and others.
func anyCosts(t *rapid.T) nccl.Costs {
	c := nccl.Costs{Micros: make([]float32, rapid.SampledFrom([]int{18, 21}).Draw(t, "cells")), NumProto: 3}
	odd := rapid.IntRange(0, 4).Draw(t, "odd")
	for i := range c.Micros {
		switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
		case kind < 2:
			c.Micros[i] = -1
		case kind == 2 && odd == 0:
			c.Micros[i] = rapid.SampledFrom(oddMicros).Draw(t, "micros")
		default:
			c.Micros[i] = float32(rapid.IntRange(1, 60).Draw(t, "micros"))
		}
	}
	return c
}

// chosen is what NCCL takes from a table, and whether another cell costs the same.
func chosen(c nccl.Costs) (cell int, tied bool) {
	cell = -1
	for i, m := range c.Micros {
		if m >= 0 && m < math.MaxFloat32 && (cell < 0 || m < c.Micros[cell]) {
			cell = i
		}
	}
	for i, m := range c.Micros {
		tied = tied || cell >= 0 && i != cell && m == c.Micros[cell]
	}
	return cell, tied
}

// What must hold whatever the rows, the model, the table and the call are: see the invariants of
// decisions in this package's documentation.
func TestWhateverIsDecided(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rapidDice{t}
		var p *Policy
		if rapid.Bool().Draw(t, "rows") {
			_, text := randomFile(rng, 1+rng.IntN(8))
			var err error
			if p, err = ReadCSV("random.csv", []byte(text)); err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
		}
		var m *model.Model
		if p == nil || rapid.Bool().Draw(t, "model") {
			file := smallModel()
			file.CurveSets[0].Nodes = rapid.SampledFrom([]int{1, 2}).Draw(t, "nodes measured")
			measured := file.CurveSets[0].Curves[2].Measured
			for i := range measured {
				measured[i][1] = float64(1 + rng.IntN(30*max(1, i)))
			}
			var err error
			if m, err = model.Compile("random", file); err != nil {
				t.Fatal(err)
			}
		}
		e := NewEngine(p, m, nil)
		comm, q := randomCall(rng)
		if rapid.Bool().Draw(t, "of the model") {
			comm = Comm{Comm: nccl.Comm{Nodes: rapid.IntRange(1, 2).Draw(t, "nodes"), Ranks: 8}}
			q.Coll, q.Bytes = nccl.CollAllReduce, rapid.Uint64Range(0, 40<<10).Draw(t, "bytes")
		}
		q.Costs = anyCosts(t)
		before := slices.Clone(q.Costs.Micros)
		view := e.For(comm)
		a := view.Decide(q)
		if !slices.EqualFunc(before, q.Costs.Micros,
			func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
			t.Fatal("Decide writes into the table")
		}
		if again := e.For(comm).Decide(q); again.Decision != a.Decision || again.By != a.By {
			t.Fatalf("%+v, then %+v", a, again)
		}
		ncclCell, tied := chosen(q.Costs)
		switch {
		case a.By == ByNCCL && (a.Write || a.Channels != 0 || a.ChunkBytes != 0):
			t.Fatalf("NCCL decides, yet %+v", a)
		case ncclCell < 0 && (a.By != ByNCCL || a.Rule >= 0):
			t.Fatalf("there is nothing to choose from, yet %+v", a)
		case a.Channels < 0 || a.Channels > nccl.MaxChannels:
			t.Fatalf("%d channels", a.Channels)
		case a.Channels > 0 && a.Algo < 0, a.ChunkBytes > 0 && a.Algo < 0:
			t.Fatalf("it is not known what NCCL chooses, yet %+v", a)
		}
		if a.Algo < 0 {
			return
		}
		cell := q.Costs.Index(a.Cell)
		if !a.Write {
			if cell != ncclCell || tied {
				t.Fatalf("cell %d is left to NCCL, which takes %d (tied: %v) of %v", cell, ncclCell, tied, before)
			}
		} else {
			if !available(before[cell]) {
				t.Fatalf("cell %d is written, which NCCL does not offer: %v", cell, before)
			}
			if !(a.Micros > 0) || a.Micros >= math.MaxFloat32 || a.Micros > before[cell] {
				t.Fatalf("%v is written over %v", a.Micros, before[cell])
			}
			q.Costs.Micros[cell] = a.Micros
			if now, tied := chosen(q.Costs); now != cell || tied {
				t.Fatalf("%+v makes NCCL take %d (tied: %v) of %v", a, now, tied, before)
			}
		}
		if a.Channels > 0 && (a.Algo == nccl.AlgoCollNetDirect || a.Algo == nccl.AlgoCollNetChain ||
			a.Algo == nccl.AlgoNVLS && comm.Nodes > 1) {
			t.Fatalf("channels for %s on %d nodes", a.Algo, comm.Nodes)
		}
		if a.Channels > 0 && q.Coll == nccl.CollAllGather && comm.NCCL.MayUseUncheckedAllGather() {
			t.Fatal("channels for an AllGather that NCCL would not check")
		}
		if a.ChunkBytes > 0 && a.ChunkBytes < a.Proto.Grain() {
			t.Fatalf("chunks of %d bytes for %s", a.ChunkBytes, a.Proto)
		}
	})
}
