package compare

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// inTurns compares runs of sizes from 4 KiB on, each twice the one before.
func inTurns(runs, sizes int, micros func(side, run, size int) float64) *Section {
	var sides [2][]bench.Sample
	for side := range sides {
		for run := range runs {
			for size := range sizes {
				sides[side] = append(sides[side], bench.Sample{
					Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 4096 << size}, Config: nccl.Config{Cell: nccl.NoCell},
					Comm: nccl.Comm{Nodes: 1, Ranks: 8}, Micros: micros(side, run, size),
					Source: fmt.Sprintf("%d-%d.log:%d", run+1, side, size+1),
				})
			}
		}
	}
	return &Two(sides[0], sides[1], Options{Names: [2]string{"default", "policy"}, Alternating: true}).Sections[0]
}

func said(g *Section) string {
	var all []string
	for _, u := range g.Unsteady {
		all = append(all, u.String())
	}
	return strings.Join(all, "; ")
}

// What is said of the other side's run.
const (
	alone = ", the other side's run beside it 1.00 times"
	alike = ", the other side's run beside it 1.50 times"
)

// A run that takes much longer than the others of its side at some sizes is named. What both sides have is not, nor
// what is as large as the noise.
func TestUnsteady(t *testing.T) {
	between := func(first, last, size int) bool { return first <= size && size <= last }
	for name, c := range map[string]struct {
		runs, sizes int
		slower      func(side, run, size int) float64 // factor; 0: 1
		want        string
	}{
		"nothing": {5, 18, func(int, int, int) float64 { return 1 }, ""},
		"policy": {5, 18, func(side, run, size int) float64 {
			return map[bool]float64{true: 1.9}[side == 1 && run == 3 && between(4, 8, size)]
		}, "run 4 of policy took 1.90 times as long as its other runs at 64KiB - 1MiB" + alone + " (4-1.log)"},
		"default, at two places": {5, 18, func(side, run, size int) float64 {
			return map[bool]float64{true: 3}[side == 0 && run == 0 && (between(0, 2, size) || between(15, 17, size))]
		}, "run 1 of default took 3.00 times as long as its other runs at 4KiB - 16KiB, 128MiB - 512MiB" + alone +
			" (1-0.log)"},
		"both, and another": {5, 18, func(side, run, _ int) float64 {
			return map[bool]float64{true: 1.5}[run == 2 || side == 1 && run == 4]
		}, "run 3 of default took 1.50 times as long as its other runs at 4KiB - 512MiB" + alike + " (3-0.log); " +
			"run 3 of policy took 1.50 times as long as its other runs at 4KiB - 512MiB" + alike + " (3-1.log); " +
			"run 5 of policy took 1.50 times as long as its other runs at 4KiB - 512MiB" + alone + " (5-1.log)"},
		"one of ten, which the tests leave out": {10, 18, func(side, run, size int) float64 {
			return map[bool]float64{true: 20}[side == 1 && run == 9 && between(4, 8, size)]
		}, "run 10 of policy took 20 times as long as its other runs at 64KiB - 1MiB" + alone + " (10-1.log)"},
		"of three": {3, 18, func(side, run, size int) float64 {
			return map[bool]float64{true: 1.9}[side == 1 && run == 1 && between(4, 8, size)]
		}, "run 2 of policy took 1.90 times as long as its other runs at 64KiB - 1MiB (2-1.log)"},
		"of two": {2, 18, func(side, run, size int) float64 {
			return map[bool]float64{true: 1.9}[side == 1 && run == 1 && between(4, 8, size)]
		}, ""},
		"two sizes": {5, 18, func(side, run, size int) float64 {
			return map[bool]float64{true: 1.9}[side == 1 && run == 3 && between(4, 5, size)]
		}, ""},
		"there are only two": {5, 2, func(side, run, _ int) float64 {
			return map[bool]float64{true: 1.9}[side == 1 && run == 3]
		}, "run 4 of policy took 1.91 times as long as its other runs at 4KiB - 8KiB" + alone + " (4-1.log)"},
		"a tenth": {5, 18, func(side, run, _ int) float64 {
			return map[bool]float64{true: 1.1}[side == 1 && run == 3]
		}, ""},
		"a faster run": {5, 18, func(side, run, _ int) float64 {
			return map[bool]float64{true: 0.5}[side == 1 && run == 3]
		}, ""},
		"drift of both": {5, 18, func(_, run, _ int) float64 { return math.Pow(1.1, float64(run)) }, ""},
	} {
		rng := rand.New(rand.NewPCG(1, 1))
		g := inTurns(c.runs, c.sizes, func(side, run, size int) float64 {
			slower := c.slower(side, run, size)
			if slower == 0 {
				slower = 1
			}
			return math.Ldexp(20*slower*math.Exp(0.002*rng.NormFloat64()), size)
		})
		if got := said(g); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
		for _, u := range g.Unsteady {
			if u.Alone() != !strings.Contains(u.String(), alike) {
				t.Errorf("%s: %s: alone: %v", name, u, u.Alone())
			}
		}
	}
}

// What was measured, in microseconds of AllReduce on MI355X, out of place, by ylerman-dn/amd-dev on GitHub: five runs
// on 8 GPUs that are all alike (results-tuning/2026-08-03-5-lognoise, A), and three on 2 x 8 of which the second
// collapsed at three sizes (results-tuning/2026-08-03-9-multinode/2n, all_reduce__REF).
func TestUnsteadyAsMeasured(t *testing.T) {
	for _, c := range []struct {
		runs [][]float64
		want string
	}{
		{[][]float64{
			{23.94, 26.80, 34.99, 33.90, 35.18, 37.13, 36.17, 44.41, 45.92, 47.10, 58.63, 76.32, 110.7, 185.7},
			{22.84, 26.87, 34.76, 34.28, 35.60, 36.75, 36.14, 44.28, 46.09, 47.24, 59.17, 76.57, 110.7, 185.5},
			{22.81, 25.83, 35.12, 33.81, 34.74, 37.34, 36.14, 44.48, 46.26, 47.58, 59.03, 76.57, 110.8, 185.8},
			{22.59, 26.78, 35.15, 34.01, 34.93, 37.02, 36.14, 44.49, 44.60, 47.16, 58.85, 76.61, 110.5, 185.7},
			{22.34, 25.92, 35.27, 34.12, 35.07, 37.66, 36.20, 44.42, 44.77, 47.22, 58.53, 76.46, 110.7, 185.7},
		}, ""},
		{[][]float64{
			{38.46, 41.73, 44.84, 41.88, 45.93, 51.10, 57.98, 61.27, 66.43, 71.53, 83.87, 121.2, 162.8, 287.5},
			{19349, 21456, 27294, 41.03, 44.17, 50.93, 56.72, 58.68, 65.16, 72.01, 89.59, 111.8, 162.5, 280.6},
			{38.72, 41.56, 41.78, 43.17, 45.85, 52.22, 59.31, 59.06, 67.03, 74.23, 84.41, 123.7, 161.3, 279.0},
		}, "run 2 of policy took 515 times as long as its other runs at 4KiB - 16KiB (2-1.log)"},
	} {
		g := inTurns(len(c.runs), len(c.runs[0]), func(side, run, size int) float64 {
			if side == 0 {
				return c.runs[0][size]
			}
			return c.runs[run][size]
		})
		if got := said(g); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// Where nothing happened, hardly a table names anything, whatever the noise is like.
func TestSteady(t *testing.T) {
	tables := 200
	if testing.Short() {
		tables = 40
	}
	for name, c := range map[string]struct {
		world
		most float64 // share of the tables
	}{
		"loud":           {world{noise: same(5 * percents)}, 0.01},
		"outliers":       {world{noise: same(percents), draw: outliers}, 0.01},
		"two modes":      {world{noise: same(percents), draw: twoModes}, 0.01},
		"patchy":         {world{noise: patchy}, 0.01},
		"shifted by 2 %": {world{noise: same(percents), shift: 2 * percents}, 0.01},
		"shifted by 5 %": {world{noise: same(percents), shift: 5 * percents}, 0.1},
		"drift of both":  {world{noise: same(percents), drift: 5 * percents}, 0.01},
	} {
		w := c.world
		for _, runs := range []int{3, 5, 10} {
			w.sizes, w.reps, w.change, w.options.Alternating = 18, [2]int{runs, runs}, same(0), true
			rng, named := rand.New(rand.NewPCG(uint64(runs), 2)), 0
			for range tables {
				if g := w.sample(rng).Sections[0]; len(g.Unsteady) > 0 {
					named++
				}
			}
			if share := float64(named) / float64(tables); share > c.most+1/float64(tables) {
				t.Errorf("%s, %d runs: %.3f of the tables", name, runs, share)
			}
		}
	}
}

// A program reads the same, and an empty list where there is nothing.
func TestUnsteadyJSON(t *testing.T) {
	for factor, want := range map[float64]string{1: `[]`,
		2: `[{"side":"policy","run":4,"log":"4-1.log","sizes":[{"from":4096,"to":16384}],"ratio":2,"other_side":1}]`} {
		g := inTurns(5, 3, func(side, run, size int) float64 {
			if side == 1 && run == 3 {
				return factor * 20
			}
			return 20
		})
		text, err := json.Marshal(&Table{Sections: []Section{*g}})
		if err != nil || !strings.Contains(string(text), `"unsteady":`+want) {
			t.Errorf("%v: %s, want %s", err, text, want)
		}
	}
	starts := []bench.Sample{one(nil), one(func(s *bench.Sample) { s.Source = "other.log:10" })}
	for _, inStarts := range []bool{false, true} {
		text, err := json.Marshal(Two(starts, starts, Options{InStarts: inStarts}))
		if err != nil || strings.Contains(string(text), `"paired":true,"in_starts":true,`) != inStarts {
			t.Errorf("in starts: %v: %v %s", inStarts, err, text)
		}
	}
}
