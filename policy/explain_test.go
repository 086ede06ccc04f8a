package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// columnsOf says of each column of a row, by the plain reading of the format, whether it matches.
func columnsOf(r *plainRow, q *Query, c Comm) map[string]bool {
	alone := func(change func(only *plainRow)) bool {
		only := plainRow{coll: "any", max: nccl.Inf, maxPerRank: nccl.Inf, nccl: "-1", name: "-1", nodes: -1, ranks: -1, perNode: -1,
			pipeOps: -1, regBuff: -1}
		change(&only)
		return only.matches(q, c)
	}
	return map[string]bool{
		"collective":     alone(func(o *plainRow) { o.coll = r.coll }),
		"nodes":          alone(func(o *plainRow) { o.nodes = r.nodes }),
		"ranks":          alone(func(o *plainRow) { o.ranks = r.ranks }),
		"ranks_per_node": alone(func(o *plainRow) { o.perNode = r.perNode }),
		"size":           alone(func(o *plainRow) { o.min, o.max = r.min, r.max }),
		"size_per_rank":  alone(func(o *plainRow) { o.minPerRank, o.maxPerRank = r.minPerRank, r.maxPerRank }),
		"pipe_ops":       alone(func(o *plainRow) { o.pipeOps = r.pipeOps }),
		"reg_buff":       alone(func(o *plainRow) { o.regBuff = r.regBuff }),
		"nccl":           alone(func(o *plainRow) { o.nccl = r.nccl }),
		"comm_name":      alone(func(o *plainRow) { o.name = r.name }),
	}
}

// oddTable makes costs such as no NCCL would send: free, endless, of unknown price.
func oddTable(rng dice, c *nccl.Costs) {
	switch rng.IntN(8) {
	case 0: // nothing at all
		for i := range c.Micros {
			c.Micros[i] = -1
		}
		return
	case 1, 2:
	default:
		return
	}
	odd := []float32{0, -1, float32(math.NaN()), float32(math.Inf(1)), math.MaxFloat32}
	for range rng.IntN(25) {
		c.Micros[rng.IntN(len(c.Micros))] = odd[rng.IntN(len(odd))]
	}
	c.AvailableOnly = rng.IntN(3) == 0
}

// The explanation names the row that decides, and says nothing of any row that is not so. Fixed
// seeds see to it that every verdict comes up, rapid finds small cases.
func TestExplainAgreesWithDecide(t *testing.T) {
	said := map[RowStatus]int{}
	for seed := range uint64(300) {
		explainAgrees(t, rand.New(rand.NewPCG(seed, 3)), said)
	}
	for verdict := range RowStatus(len(rowStatuses)) {
		if said[verdict] == 0 {
			t.Errorf("no row came to: %s", verdict)
		}
	}
	rapid.Check(t, func(t *rapid.T) { explainAgrees(t, rapidDice{t}, said) })
}

func explainAgrees(t fataler, rng dice, said map[RowStatus]int) {
	rows, text := randomFile(rng, 1+rng.IntN(12))
	p, err := ReadCSV("random.csv", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for range 4 {
		comm, q := randomCall(rng)
		oddTable(rng, &q.Costs)
		v := p.For(comm)
		decided := v.Decide(q).Rule
		for i, tried := range v.Explain(q) {
			said[tried.Status]++
			if (tried.Status == RowDecides) != (i == decided) || tried.Rule != i ||
				tried.Status == RowLater && i < decided {
				t.Fatalf("row %d of\n%s\nfor %+v on %+v, decided by row %d: %+v", i, text, q, comm, decided, tried)
			}
			if untrue := contradicts(&rows[i], tried, &q, comm); untrue != "" {
				t.Fatalf("%s: row %d of\n%s\nfor %+v on %+v: %+v", untrue, i, text, q, comm, tried)
			}
		}
	}
}

// contradicts holds what is said of a row against a plain reading of it.
func contradicts(r *plainRow, tried Tried, q *Query, c Comm) string {
	for column, matches := range columnsOf(r, q, c) {
		if matches == slices.ContainsFunc(tried.Misses, func(m Miss) bool { return m.Column == column }) {
			return column
		}
	}
	bare := *r
	bare.when = nil
	if bare.matches(q, c) == (tried.Status == RowDiffers) {
		return "columns that differ"
	}
	unknown := slices.ContainsFunc(tried.Values, func(v Value) bool { return v.Value == nil })
	offered := false
	for cell, micros := range q.Costs.Micros {
		offered = offered || available(micros) && allows(r.algo, plainAlgos[cell/3]) &&
			allows(r.proto, plainProtos[cell%3])
	}
	var so bool
	switch matches := r.matches(q, c); tried.Status {
	case RowDiffers:
		so = !matches
	case RowWhenFalse, RowWhenFails, RowWhenUnknown:
		so = !matches && unknown == (tried.Status == RowWhenUnknown) &&
			(tried.Error != "") == (tried.Status == RowWhenFails)
	case RowUnavailable:
		so = matches && !offered
	case RowUnpriced:
		so = matches && q.Costs.AvailableOnly
	case RowBeaten:
		so = matches && offered && slices.Contains(q.Costs.Micros, 0)
	case RowLater, RowDecides:
		so = matches && offered
	}
	if !so {
		return tried.Status.String()
	}
	return ""
}

// What a person reads: each column that differs, what the row wants and what the call has, and the
// values of the names in a condition.
func TestExplainNamesColumns(t *testing.T) {
	p := rowsOf(t,
		"collective,min_bytes,max_bytes,max_bytes_per_rank,algorithm,protocol,nodes,ranks_per_node,pipe_ops,reg_buff,when\n"+
			"allgather,,64K,1K,ring,ll,4,4,2,1,\n"+
			"allreduce,,,,ring,ll,,,,,bytes > 64*MiB && nodes < 8\n"+
			"allreduce,,,,ring,ll,,,,,topo.nvswitch\n"+
			"allreduce,,,,pat,ll,,,,,\n"+
			"allreduce,,,,tree,ll,,,,,\n"+
			"allreduce,,,,tree,ll,,,,,\n")
	costs := nccl.Costs{Micros: make([]float32, 21), NumProto: 3}
	for i := range costs.Micros {
		costs.Micros[i] = -1
	}
	costs.Micros[0], costs.Micros[5] = 2, 1
	got := p.For(Comm{Comm: nccl.Comm{Nodes: 2, Ranks: 16}}).Explain(
		Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 1 << 20}, PipeOps: 1, Costs: costs})
	want := []string{
		"does not match: collective allgather/allreduce nodes 4/2 ranks_per_node 4/8 pipe_ops 2/1 reg_buff 1/0 " +
			"size 0 - 64KiB/1MiB+4 size_per_rank 0 - 1KiB/64KiB+6",
		"its condition does not hold: bytes=1.048576e+06 nodes=2",
		"its condition mentions what is not known here: topo.nvswitch=<nil>",
		"nothing of what it asks for is available here:",
		"decides:",
		"matches, an earlier row decides:",
	}
	for i, tried := range got {
		text := tried.Status.String() + ":"
		for _, m := range tried.Misses {
			text += fmt.Sprintf(" %s %s/%s", m.Column, m.Wants, m.Has)
			if m.Octaves > 0 {
				text += fmt.Sprintf("+%g", m.Octaves)
			}
		}
		for _, v := range tried.Values {
			text += fmt.Sprintf(" %s=%v", v.Name, v.Value)
		}
		if i >= len(want) || text != want[i] {
			t.Errorf("row %d: %s", i, text)
		}
	}
}

// Where NCCL offers nothing at all, no row decides, not even one that leaves it to NCCL.
func TestExplainNothingOffered(t *testing.T) {
	v := rowsOf(t, "allreduce,0,inf,default,-1,-1,-1,-1\n").For(Comm{Comm: nccl.Comm{Nodes: 1, Ranks: 8}})
	q := Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 1}, PipeOps: 1,
		Costs: nccl.Costs{Micros: []float32{-1, -1, -1}, NumProto: 3}}
	if got := v.Explain(q)[0].Status; got != RowUnavailable || v.Decide(q).Rule >= 0 {
		t.Errorf("%s", got)
	}
}

// The candidates are those that Choose chooses from, its choice is the first of them, and what is
// barred is never chosen.
func TestCandidatesAgreeWithChoose(t *testing.T) {
	m := compiled(t, func(f *model.File) {
		ring := &f.CurveSets[0].Curves[2]
		ring.Measured = ring.Measured[1:]
	})
	rapid.Check(t, func(t *rapid.T) {
		rng := rapidDice{t}
		v := m.For(nccl.Comm{Nodes: 1 + rng.IntN(2), Ranks: 8})
		costs := randomCosts(rng)
		oddTable(rng, &costs)
		coll, bytes := nccl.Coll(rng.IntN(nccl.NumColls)), rng.Uint64N(20<<10)
		if rng.IntN(3) > 0 {
			coll = nccl.CollAllReduce
		}
		choice, why := v.Choose(nccl.Call{Coll: coll, Bytes: bytes}, costs)
		all := v.Candidates(nccl.Call{Coll: coll, Bytes: bytes}, costs)
		if free := len(all) > 0 && all[0].Bar == model.BarNone; free != (choice.Algo >= 0) {
			t.Fatalf("chose %+v (%s) of %+v", choice, why, all)
		} else if free && (all[0].Config != choice.Config || all[0].LnMicros != choice.LnMicros) {
			t.Fatalf("chose %+v of %+v", choice, all)
		}
		for i, c := range all {
			if c.Bar == model.BarNone && !costs.Offers(c.Cell) || c.Bar == model.BarNotOffered && costs.Offers(c.Cell) {
				t.Fatalf("%+v of %+v", c, costs)
			}
			if i > 0 && c.Bar == model.BarNone && (all[i-1].Bar != model.BarNone || all[i-1].LnMicros > c.LnMicros) {
				t.Fatalf("%+v are not in order", all)
			}
		}
		if choice.Algo < 0 || choice.Default.Unknown() {
			return
		}
		if said, ok := v.Expect(nccl.Call{Coll: coll, Bytes: bytes}, costs, choice.Config); !ok ||
			said.Gain() != choice.Gain() {
			t.Fatalf("expects %+v, %v of the choice %+v", said, ok, choice)
		}
		if gain := choice.LnGain(); (why == model.Decides) != (choice.Needed > 0 && gain > choice.Needed) {
			t.Fatalf("%+v gains %g: %q", choice, gain, why)
		}
	})
}

// A row keeps the model from being asked, not from being shown.
func TestExplainShowsTheModelBehindARow(t *testing.T) {
	m := compiled(t, func(f *model.File) { f.CurveSets[0].Curves[0].Channels = 0 }) // tree/ll on NCCL's own count
	v := NewEngine(rowsOf(t, "allreduce,16384,16384,ring,simple,2,2,8\n"), m, nil).For(
		Comm{Comm: nccl.Comm{Nodes: 2, Ranks: 8}})
	q := Query{Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 16 << 10}, PipeOps: 1, Costs: costsOf(nil)}
	x := v.Explain(q)
	if x.By != ByRow || x.Asked || x.Model.Channels != 8 || x.Why != model.Decides || len(x.Candidates) != 4 {
		t.Errorf("%+v", x)
	}
	expected, ok := v.Expect(q, x.Decision)
	if !ok || math.Abs(expected.Gain()-0.25) > 1e-9 || math.Abs(expected.Micros()-30) > 1e-9 {
		t.Errorf("expects %+v, %v of 30 us instead of 40", expected, ok)
	}
	q.Bytes = 1 << 10 // NCCL's own is the best
	if x = v.Explain(q); x.Why != model.AbstainBest || x.By != ByNCCL {
		t.Errorf("%+v", x)
	}
	if _, ok := v.Expect(q, x.Decision); ok {
		t.Error("something is expected of what is left to NCCL")
	}
	if x.Why.String() != "nothing is surely faster than NCCL's default" {
		t.Errorf("%s", x.Why)
	}
}
