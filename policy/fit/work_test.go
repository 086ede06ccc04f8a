package fit

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// What coarser fits decide on the real grids, beside the finest.
func TestDetail(t *testing.T) {
	grids := realGrids(t)
	for _, name := range gridNames {
		g := grids[name]
		g.Twins = nil
		regret := func(d detail) float64 {
			part := g.thinnedTo(d.points)
			view := compiled(0, compileGroup(part, axisOf(part.allSizes(), d))).For(g.Nodes, g.Ranks)
			return newVerdict("", decide(view, g, g.Sizes()), nil).Plain.Mean
		}
		fine := regret(finest)
		for _, d := range slices.Concat(details, rough) {
			coarse := regret(d)
			t.Logf("%s: choice / best measured %.4f, %.4f with %+v", name, fine, coarse, d)
			most := 0.035
			if slices.Contains(rough, d) { // for families of fewer cells, which lose none
				most = 0.085
			}
			if coarse > fine+most {
				t.Errorf("%s: %+v costs %.4f", name, d, coarse-fine)
			}
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
	many = append(many, &Group{Key: Key{nccl.CollReduce, 99, 990}}) // default only
	tasks := plan(many)
	checkWork(t, many, tasks)
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

// Tens of thousands of families, each measured at few places, stay within the
// bounds, too.
func TestPlanOfSparseWork(t *testing.T) {
	m := smallMachine()
	m.everyCell = true
	m.channels = []int{1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64}
	var groups []*Group
	for i, m := range machines(700, m) {
		g := &Group{Key: m.Key, Noise: assumedNoise}
		rng := rand.New(rand.NewPCG(uint64(i), 9))
		for _, c := range m.configs() {
			for range 3 {
				b := uint64(4096 * (1 + rng.IntN(1<<uint(1+rng.IntN(16)))))
				g.Cells = append(g.Cells, Cell{Config: c, Bytes: b, Micros: m.micros(c, b), Reps: 1})
			}
		}
		groups = append(groups, g)
	}
	tasks := plan(groups)
	if !slices.Contains(rough, tasks[0].fitted) {
		t.Errorf("fitted with %+v, want a rough detail", tasks[0].fitted)
	}
	checkWork(t, groups, tasks)
}

// checkWork adds up what tasks cost.
func checkWork(t *testing.T, groups []*Group, tasks []task) {
	t.Helper()
	sum := 0.0
	for i, g := range groups {
		sum += work(g.loads(), tasks[i].fitted.points, len(tasks[i].axis))
	}
	if most := mostFitWork(groups); sum > most {
		t.Errorf("%d groups fitted with %+v take %.3g, want at most %.3g", len(groups), tasks[0].fitted, sum, most)
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
