package fit

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// verification measures a plan on a machine.
func verification(m machine, plan Plan, micros func(c nccl.Config, bytes uint64) float64,
	def func(bytes uint64) float64) (samples []bench.Sample) {
	for _, pass := range plan.Passes {
		for i, b := range plan.Sizes {
			s := bench.Sample{Call: nccl.Call{Coll: m.Coll, Bytes: b}, DType: "float", RedOp: "sum", Comm: m.Comm,
				Config: pass[i], Verify: true, Start: 2, Selection: bench.SelectionForced}
			if pass[i] == ByDefault {
				s.Selection, s.Micros = bench.SelectionDefault, def(b)
			} else {
				s.Micros = micros(pass[i], b)
			}
			samples = append(samples, s)
		}
	}
	return samples
}

// With noise that flatters whoever is chosen, what was verified is never slower than the default, at any size
// measured, though the times it was selected by count as one repetition.
func TestVerifiedIsNeverSlower(t *testing.T) {
	m := smallMachine()
	m.noise = 0
	rng := rand.New(rand.NewPCG(1, 2))
	truth := func(c nccl.Config, b uint64) float64 { return m.micros(c, b) }
	own := func(b uint64) float64 { // the best there is, nearly
		least := 1e12
		for _, c := range m.configs() {
			least = min(least, truth(c, b))
		}
		if log2(b) < 16 {
			return 1.2 * least
		}
		return least
	}
	var samples []bench.Sample
	for _, s := range m.sweep(1, 1) {
		if s.Selection == bench.SelectionDefault {
			// it was a bad day
			s.Micros, s.Algo, s.Proto, s.Channels = 1.05*own(s.Bytes), bench.Unknown, bench.Unknown, 0
		} else {
			s.Micros *= 1 - 0.05*rng.Float64()
		}
		samples = append(samples, s)
	}
	g := pooled(samples).Groups[0]
	plan := spaceOf(g).Verification(g)
	if len(plan.Passes) != Turns*(1+Contenders) || len(plan.Sizes) != len(m.sizes) {
		t.Fatalf("verified would be %+v", plan)
	}
	set := pooled(append(samples, verification(m, plan, truth, own)...))
	c := plan.Passes[1][0]
	if point, _ := set.Groups[0].at(c, m.sizes[0]); point.Verified != 1 || point.Reps != 1+Turns || point.Starts != 2 {
		t.Errorf("verified is %+v", point)
	}
	file, _ := Fit(set, Options{})
	text, err := marshalModel(file)
	if err != nil {
		t.Fatal(err)
	}
	compiled, err := model.Read("model", text)
	if err != nil {
		t.Fatal(err)
	}
	view, decided := compiled.For(m.Comm), 0
	for _, b := range m.sizes {
		best := own(b)
		for _, pass := range plan.Passes {
			if c := pass[slices.Index(plan.Sizes, b)]; c != ByDefault {
				best = min(best, truth(c, b))
			}
		}
		got := own(b)
		choice, why := view.Choose(nccl.Call{Coll: m.Coll, Bytes: b}, nccl.Everything())
		if why == model.Decides {
			decided++
			got = truth(choice.Config, b)
		}
		if got > 1.02*best || got > own(b) {
			t.Errorf("at %d: %.2f us of %v, where %.2f was verified and the default takes %.2f", b, got, choice,
				best, own(b))
		}
		if !choice.Verified {
			t.Errorf("at %d: decided by something else than the verification", b)
		}
	}
	if decided != 4 {
		t.Errorf("the default is beaten at %d sizes, want 4", decided)
	}
	var rows bytes.Buffer
	if err := WriteRows(&rows, Rows(compiled), nccl.AnyRelease); err != nil ||
		!strings.Contains(rows.String(), " measured, verified: 4 times in 2 starts\n") {
		t.Errorf("%v, no row is said to be verified:\n%s", err, rows.String())
	}
}

// A gain counts only beyond what starts of the default or of the configuration differ by.
func TestVerifiedBeyondDrift(t *testing.T) {
	at := func(bytes uint64, by bench.Selection, algo nccl.Algo, start int, micros float64) bench.Sample {
		return bench.Sample{Call: nccl.Call{Bytes: bytes}, Comm: nccl.Comm{Nodes: 1, Ranks: 8}, Selection: by,
			Config: nccl.Config{Cell: nccl.Cell{Algo: algo}, Channels: 8}, Micros: micros, Start: start}
	}
	for _, test := range []struct {
		first, last, micros float64 // of the default, and of a configuration that is measured twice in between
		wins                bool
	}{
		{100, 100, 97, true},
		{106, 100, 98, false},
		{100, 106, 98, false},
		{120, 100, 95, false},
		{106, 100, 80, true},
	} {
		for _, shared := range []bool{false, true} { // a start that all share has no drift of its own
			if shared && test.first > 110 {
				continue // few sizes tell its level
			}
			var samples []bench.Sample
			for b := uint64(1 << 10); b <= 1<<16; b *= 2 {
				start := func(n int) int {
					if shared {
						n /= 2
					}
					return n
				}
				samples = append(samples, at(b, bench.SelectionDefault, nccl.AlgoRing, start(0), test.first),
					at(b, bench.SelectionForced, nccl.AlgoTree, start(1), test.micros*(test.first/test.last)),
					at(b, bench.SelectionForced, nccl.AlgoTree, start(2), test.micros),
					at(b, bench.SelectionDefault, nccl.AlgoRing, start(3), test.last))
			}
			g := pooled(samples).Groups[0]
			for _, v := range g.verified() {
				if wins := v.Algo != ""; wins != (test.wins || shared && test.micros < 99) || v.Repetitions != 2 || v.Starts != 2 {
					t.Errorf("the default takes %v, then %v, shared: %v: at %d, %v wins: %v", test.first, test.last, shared,
						v.Bytes, test.micros, wins)
				}
			}
			if unproven := g.Unproven(); (len(unproven) > 0) != !(test.wins || shared) {
				t.Errorf("the default takes %v, then %v: unproven are %+v", test.first, test.last, unproven)
			}
		}
	}
}
