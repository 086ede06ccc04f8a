package fit

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
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

// Sweeps of one machine that contradict each other are named.
func TestContradictionIsNamed(t *testing.T) {
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
		for _, point := range g.Points {
			if point.Bytes >= 1<<20 {
				large++
			}
		}
		if c.A != "a.txt" || c.B != "b.txt" || c.Apart != large || c.Common != len(g.Points)+len(g.Default) ||
			math.Abs(c.Factor-1.8) > 0.05 {
			t.Errorf("%+v, want %d of %d, a factor of 1.8 from a.txt to b.txt", c, large, len(g.Points)+len(g.Default))
		}
		agreeing := pooled(twoSweeps(reps, func(*bench.Sample) {})).Groups[0]
		if len(agreeing.Contradictions) != 0 {
			t.Errorf("%d repetitions: %+v where they agree", reps, agreeing.Contradictions)
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
	if c := g.Contradictions; len(c) != 1 || c[0].A != "first.csv" || c[0].B != "second.csv" ||
		c[0].Apart != len(g.Points)+len(g.Default) || c[0].Common != c[0].Apart {
		t.Errorf("%+v", c)
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
		got = append(got, fmt.Sprintf("%s %s %s %d %s", machine.GPU, machine.NCCL, machine.Begun, machine.Rows,
			machine.Source))
	}
	want := "NVIDIA H100 2.29.2 2026-01-01 00:00:00 51 0.txt|   25 1.txt|NVIDIA A100   25 3.txt"
	if strings.Join(got, "|") != want {
		t.Errorf("%q, want %q", got, want)
	}
	file, _ := Fit(set, Options{})
	p := file.Provenance
	if len(p.Machines) != 2 ||
		p.Machines[0] != (model.MeasuredOn{GPU: "NVIDIA H100", NCCL: "2.29.2", Begun: "2026-01-01 00:00:00",
			Rows: 51, Source: "0.txt"}) || !p.Mixed || p.NCCL != "2.29.2" {
		t.Errorf("the model says %+v", p)
	}
	if gpus := (&Set{Machines: []model.MeasuredOn{{GPU: "A100-SXM4-40GB"},
		{GPU: "NVIDIA A100-SXM4-40GB"}}}).GPUs(); len(gpus) != 1 {
		t.Errorf("one GPU under two names counts as %q", gpus)
	}
}

// Runs of which each is slow at another small size than the next one contradict nobody: the times vary. One run that is
// slow everywhere contradicts the others.
func TestTimesThatVary(t *testing.T) {
	m := smallMachine()
	sweeps := func(measures, slow func(run, size int) bool) []Contradiction {
		var all []bench.Sample
		for run := range 8 {
			for i, b := range m.sizes {
				us := m.micros(m.configs()[0], b)
				if slow(run, i) {
					us *= 2
				}
				if measures(run, i) {
					all = append(all, bench.Sample{Call: nccl.Call{Coll: m.Coll, Bytes: b}, DType: "float", RedOp: "sum",
						Comm: m.Comm, Config: m.configs()[0], Selection: bench.SelectionForced, Micros: us,
						Source: fmt.Sprintf("run%d.log:%d", run, i)})
				}
			}
		}
		return pooled(all).Groups[0].Contradictions
	}
	c := sweeps(func(run, size int) bool { return run == size || run == size+1 },
		func(run, size int) bool { return size < 5 && run == size+1 })
	if len(c) != 1 || !c[0].Varies() || c[0].Sizes != (nccl.Range{Min: m.sizes[0], Max: m.sizes[4]}) ||
		c[0].Apart != 5 || math.Abs(c[0].Factor-2) > 0.01 {
		t.Errorf("%+v", c)
	}
	c = sweeps(func(int, int) bool { return true }, func(run, _ int) bool { return run == 3 })
	if len(c) != 1 || c[0].B != "run3.log" {
		t.Errorf("%+v", c)
	}
}
