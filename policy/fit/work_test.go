package fit

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// The coarsest detail costs little: what it decides on the real grids and how far
// its predictions are off on a grid of many channel counts, beside the finest.
func TestDetail(t *testing.T) {
	coarsest := details[len(details)-1]
	grids := realGrids(t)
	for _, name := range gridNames {
		g := grids[name]
		g.Twins = nil
		regret := func(d detail) float64 {
			part := g.thinnedTo(d.points)
			view := compiled(0, compileGroup(part, axisOf(part.allSizes(), d.closest))).For(g.Nodes, g.Ranks)
			return newVerdict("", decide(view, g, g.Sizes()), nil).Plain.Mean
		}
		fine, coarse := regret(finest), regret(coarsest)
		t.Logf("%s: choice / best measured %.4f, %.4f with at most %d points", name, fine, coarse, coarsest.points)
		if coarse > fine+0.025 {
			t.Errorf("%s: the coarsest detail costs %.4f", name, coarse-fine)
		}
	}
}

// Rows of any shape stay within the bounds on work, and few rows are not touched.
func TestPlanOfWork(t *testing.T) {
	few := pooled(smallMachine().sweep(1, 1)).Groups
	if task := plan(few)[0]; task.fitted != finest || task.validated != finest {
		t.Errorf("a small sweep is fitted with %+v", task)
	}
	m := smallMachine()
	m.everyCell = true
	var many []*Group
	for i, m := range machines(40, m) {
		g := &Group{Key: m.Key, Noise: assumedNoise}
		rng := rand.New(rand.NewPCG(uint64(i), 8))
		for _, c := range m.configs() {
			for range 60 {
				b := uint64(4096 * (1 + rng.IntN(1<<16)))
				g.Cells = append(g.Cells, Cell{Config: c, Bytes: b, Micros: m.micros(c, b), Reps: 1})
			}
		}
		many = append(many, g)
	}
	many = append(many, &Group{Key: Key{policy.CollReduce, 99, 990}}) // default only
	tasks := plan(many)
	validated := 0
	for i, task := range tasks[:40] {
		if task.fitted == finest || len(task.axis) == 0 {
			t.Errorf("group %d: %+v, axis of %d", i, task.fitted, len(task.axis))
		}
		if task.validated.points > task.fitted.points {
			t.Errorf("group %d is validated with more points than it is fitted with: %+v", i, task)
		}
		if task.validated.points > 0 {
			validated++
		}
	}
	if validated == 0 || validated == 40 || tasks[0].validated.points == 0 {
		t.Errorf("%d of 40 groups are validated, want some, the first among them", validated)
	}
	if last := tasks[40]; last.axis != nil || last.validated.points != 0 {
		t.Errorf("a group with nothing to fit: %+v", last)
	}
}

// Merged points keep each channel count and lie within their bins.
func TestThin(t *testing.T) {
	var points []point
	for c := range 8 {
		for i := range 300 {
			points = append(points, point{place{10 + float64(i)/30, float64(c), 0.01}, float64(i)})
		}
	}
	thinned := thin(points, 96)
	seen := map[float64]int{}
	for _, p := range thinned {
		seen[p.channels]++
		if want := (p.octave - 10) * 30; math.Abs(want-p.value) > 1e-6 {
			t.Errorf("at %.3f octaves %.3f, want the mean %.3f", p.octave, p.value, want)
		}
	}
	if len(thinned) > 96 || len(thinned) < 40 || len(seen) != 8 {
		t.Errorf("%d points of %d channel counts", len(thinned), len(seen))
	}
}
