package fit

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// twoSweeps is a machine swept twice, into two files; change is made to the second.
func twoSweeps(reps int, change func(*bench.Sample)) []bench.Sample {
	m := smallMachine()
	var all []bench.Sample
	for file, seed := range []uint64{1, 2} {
		for i, s := range m.sweep(reps, seed) {
			s.Source = fmt.Sprintf("%c.txt:%d", 'a'+file, i)
			if file == 1 {
				change(&s)
			}
			all = append(all, s)
		}
	}
	return all
}

// Sweeps of one machine that contradict each other are named, and what they contradict
// each other about is trusted less than what they agree about.
func TestContradictionIsNamedAndTrustedLess(t *testing.T) {
	for _, reps := range []int{1, 3} {
		set := pooled(twoSweeps(reps, func(s *bench.Sample) {
			if s.Bytes >= 1<<20 && s.Selection == bench.SelectionForced {
				s.Micros *= 1.8
			}
		}))
		g := set.Groups[0]
		if len(g.Contradictions) != 1 {
			t.Fatalf("%d repetitions: %+v, want one contradiction", reps, g.Contradictions)
		}
		c := g.Contradictions[0]
		large := 0
		for _, cell := range g.Cells {
			if cell.Bytes >= 1<<20 {
				large++
			}
			if (cell.Apart > 0) != (cell.Bytes >= 1<<20) {
				t.Errorf("%s at %d: apart %.3f", cell.Config, cell.Bytes, cell.Apart)
			}
		}
		if c.A != "a.txt" || c.B != "b.txt" || c.Apart != large || c.Common != len(g.Cells)+len(g.Default) || math.Abs(c.Factor-1.8) > 0.05 {
			t.Errorf("%+v, want %d of %d, a factor of 1.8 from a.txt to b.txt", c, large, len(g.Cells)+len(g.Default))
		}
		sigma := func(g *Group) float64 {
			m := compileGroup(g, axisOf(g.Sizes(), finest))
			curve := m.Families[0].Curves[0]
			for i, b := range sizesWithin(m.Axis, curve.Min, curve.Max) {
				if b == 16<<20 {
					return curve.Sigma[i]
				}
			}
			return 0
		}
		agreeing := pooled(twoSweeps(reps, func(*bench.Sample) {})).Groups[0]
		if with, without := sigma(g), sigma(agreeing); len(agreeing.Contradictions) != 0 || !(with > 3*without) {
			t.Errorf("%d repetitions: sigma %.3f where they disagree, %.3f where they agree (%+v)", reps, with, without, agreeing.Contradictions)
		}
	}
}

// Two files whose rows name the same sources are two sweeps all the same.
func TestContradictionOfFiles(t *testing.T) {
	p := NewPool()
	for i, s := range twoSweeps(1, func(s *bench.Sample) { s.Micros *= 1.5 }) {
		if p.Begin("first.csv"); s.Source[0] == 'b' {
			p.Begin("second.csv")
		}
		s.Source = []string{"x", "y"}[i%2]
		p.Add(&s)
	}
	g := p.Set().Groups[0]
	if c := g.Contradictions; len(c) != 1 || c[0].A != "first.csv" || c[0].B != "second.csv" || c[0].Apart != len(g.Cells)+len(g.Default) || c[0].Common != c[0].Apart {
		t.Errorf("%+v", c)
	}
}

// A time of NCCL's own choice that the sizes around it contradict is marked, and the
// model builds no gain on it; a bad choice over a range of sizes is not, nor one that
// two sweeps agree about.
func TestOutlierInTheDefault(t *testing.T) {
	m := smallMachine()
	spoil := func(samples []bench.Sample, from, to uint64, by float64) []bench.Sample {
		for i := range samples {
			if s := &samples[i]; s.Selection == bench.SelectionDefault && s.Bytes >= from && s.Bytes <= to {
				s.Micros *= by
			}
		}
		return samples
	}
	marked := func(g *Group) (sizes []uint64) {
		for _, c := range g.Default {
			if c.Outlier {
				sizes = append(sizes, c.Bytes)
			}
		}
		return sizes
	}
	first, last := m.sizes[0], m.sizes[len(m.sizes)-1]
	for _, c := range []struct {
		from, to uint64
		by       float64
		want     string
	}{
		{64 << 10, 64 << 10, 4, "[65536]"},
		{64 << 10, 64 << 10, 0.3, "[65536]"},
		{first, first, 3, fmt.Sprint([]uint64{first})},
		{last, last, 0.2, fmt.Sprint([]uint64{last})},
		{32 << 10, 256 << 10, 3, "[]"},
		{1 << 20, last, 2, "[]"},
		{first, first, 1, "[]"},
	} {
		if got := fmt.Sprint(marked(pooled(spoil(m.sweep(2, 1), c.from, c.to, c.by)).Groups[0])); got != c.want {
			t.Errorf("%d to %d times %v: marked %s, want %s", c.from, c.to, c.by, got, c.want)
		}
	}
	const at = 64 << 10
	if got := marked(pooled(spoil(twoSweeps(1, func(*bench.Sample) {}), at, at, 4)).Groups[0]); len(got) != 0 {
		t.Errorf("two sweeps agree about %v", got)
	}
	g := pooled(spoil(m.sweep(2, 1), at, at, 4)).Groups[0]
	clean := pooled(m.sweep(2, 1)).Groups[0]
	sigma := func(g *Group) float64 {
		axis := axisOf(g.Sizes(), finest)
		i, _ := slices.BinarySearch(axis, at)
		return compileDefault(g, nil, axis).Sigma[i]
	}
	if with, without := sigma(g), sigma(clean); !(with > 5*without) {
		t.Errorf("sigma of the default %.3f, %.3f without the outlier", with, without)
	}
}

// What machines were measured is counted, whatever the order of their rows.
func TestMachinesAreCounted(t *testing.T) {
	m := smallMachine()
	a := &bench.Setup{GPU: "NVIDIA H100", NCCL: "2.29.2", Time: "2026-02-01 00:00:00"}
	b := &bench.Setup{GPU: "NVIDIA H100", NCCL: "2.29.2", Time: "2026-01-01 00:00:00"}
	other := &bench.Setup{GPU: "NVIDIA A100"}
	samples := m.sweep(1, 1)
	for i := range samples {
		samples[i].Setup = []*bench.Setup{a, nil, b, other}[i%4]
		samples[i].Source = fmt.Sprintf("%d.txt:7", i%4)
	}
	set := pooled(samples[:101])
	var got []string
	for _, machine := range set.Machines {
		got = append(got, fmt.Sprintf("%s %s %s %d %s", machine.GPU, machine.NCCL, machine.Time, machine.Rows, machine.Source))
	}
	want := "NVIDIA H100 2.29.2 2026-01-01 00:00:00 51 0.txt|   25 1.txt|NVIDIA A100   25 3.txt"
	if strings.Join(got, "|") != want {
		t.Errorf("%q, want %q", got, want)
	}
	file, _ := Fit(set, Options{})
	p := file.Provenance
	if len(p.Machines) != 2 || p.Machines[0] != (model.MeasuredOn{GPU: "NVIDIA H100", NCCL: "2.29.2", Begun: "2026-01-01 00:00:00", Rows: 51}) || !p.Mixed || p.NCCL != "2.29.2" {
		t.Errorf("the model says %+v", p)
	}
	if gpus := (&Set{Machines: []MeasuredOn{{Setup: bench.Setup{GPU: "A100-SXM4-40GB"}}, {Setup: bench.Setup{GPU: "NVIDIA A100-SXM4-40GB"}}}}).GPUs(); len(gpus) != 1 {
		t.Errorf("one GPU under two names counts as %q", gpus)
	}
}
