package fit

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// verification measures the default and the policies of a machine twice, in turns.
func verification(m machine, policies []Run, micros func(c nccl.Config, bytes uint64) float64,
	def func(bytes uint64) float64) (samples []bench.Sample) {
	for range 2 {
		for _, b := range m.sizes {
			s := bench.Sample{Call: nccl.Call{Coll: m.Coll, Bytes: b}, DType: "float", RedOp: "sum", Comm: m.Comm,
				Config: nccl.Config{Cell: nccl.NoCell}, Verify: true, Source: "verify:log"}
			s.Selection, s.Micros = bench.SelectionDefault, def(b)
			samples = append(samples, s)
			for _, r := range policies {
				if i := slices.Index(r.Sizes, b); i >= 0 {
					c := r.Configs[i]
					s.Selection, s.Algo, s.Proto, s.Channels, s.Micros = bench.SelectionForced, c.Algo, c.Proto,
						c.Channels, micros(c, b)
					samples = append(samples, s)
				}
			}
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
	policies := spaceOf(g).Verification(g)
	if len(policies) != Contenders || len(policies[0].Sizes) != len(m.sizes) {
		t.Fatalf("verified would be %+v", policies)
	}
	set := pooled(append(samples, verification(m, policies, truth, own)...))
	c := policies[0].Configs[0]
	before, _ := g.at(c, m.sizes[0])
	g = set.Groups[0]
	want := (before.Micros + 2*truth(c, m.sizes[0])) / 3
	if point, _ := g.at(c, m.sizes[0]); !point.Verified || point.Reps != 3 || math.Abs(point.Micros-want) > 1e-9 {
		t.Errorf("verified is %+v, want %v us", point, want)
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
		for _, r := range policies {
			if i := slices.Index(r.Sizes, b); i >= 0 {
				best = min(best, truth(r.Configs[i], b))
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
		!strings.Contains(rows.String(), " measured, verified\n") {
		t.Errorf("%v, no row is said to be verified:\n%s", err, rows.String())
	}
}

// A gain counts only beyond what the default or the configuration itself changed by.
func TestVerifiedBeyondDrift(t *testing.T) {
	at := func(bytes uint64, by bench.Selection, algo nccl.Algo, micros float64) bench.Sample {
		return bench.Sample{Call: nccl.Call{Bytes: bytes}, Comm: nccl.Comm{Nodes: 1, Ranks: 8}, Selection: by,
			Config: nccl.Config{Cell: nccl.Cell{Algo: algo}, Channels: 8}, Micros: micros, Verify: true,
			Source: "verify:log"}
	}
	for _, test := range []struct {
		first, last, micros float64
		wins                bool
	}{
		{100, 100, 97, true},
		{106, 100, 98, false}, // 5 % faster than the default in the middle, which was 6 % slower at first
		{100, 106, 98, false},
		{120, 100, 95, false},
		{106, 100, 90, true},
	} {
		var samples []bench.Sample
		for b := uint64(1 << 10); b <= 1<<16; b *= 2 {
			samples = append(samples, at(b, bench.SelectionDefault, nccl.AlgoRing, test.first),
				at(b, bench.SelectionForced, nccl.AlgoTree, test.micros),
				at(b, bench.SelectionDefault, nccl.AlgoRing, test.last))
		}
		g := pooled(samples).Groups[0]
		unsteady := g.Unsteady()
		if test.wins != (len(unsteady) == 0) ||
			!test.wins && (unsteady[0].Bytes != 1<<10 || unsteady[0].Gain <= 0 || unsteady[0].Moved < 0.05) {
			t.Errorf("the default takes %v, then %v: unsteady are %+v", test.first, test.last, unsteady)
		}
		for _, v := range g.verified() {
			if (v.Algo != "") != test.wins {
				t.Errorf("the default takes %v, then %v: at %d, %v wins: %v, want %v", test.first, test.last, v.Bytes,
					test.micros, v.Algo != "", test.wins)
			}
		}
	}
}
