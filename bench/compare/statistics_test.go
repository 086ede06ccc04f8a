package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// world makes measurements up whose truth is known.
type world struct {
	sizes   int
	reps    [2]int                                  // of each side
	inRun   bool                                    // the repetitions are of one run
	passes  int                                     // of each repetition; 0: 1
	drawn   float64                                 // standard deviation of what a run draws for each size
	change  func(size int) float64                  // ln(after/before)
	noise   func(size int) float64                  // standard deviation of ln(us)
	shift   float64                                 // standard deviation of what shifts a run as a whole
	drift   float64                                 // of ln(us), from one pair of runs to the next
	draw    func(rng *rand.Rand, n float64) float64 // nil: normal
	options Options
	louder  float64 // noise after / before; 0: 1
	// disturbed is what the second run after took longer by, in ln(us).
	disturbed func(size int) float64
}

func same(v float64) func(int) float64 { return func(int) float64 { return v } }

func (w world) loudness(side int) float64 {
	if side == 1 && w.louder > 0 {
		return w.louder
	}
	return 1
}

func (w world) sample(rng *rand.Rand) *Table {
	draw := w.draw
	if draw == nil {
		draw = func(rng *rand.Rand, sigma float64) float64 { return sigma * rng.NormFloat64() }
	}
	var sides [2][]bench.Sample
	for side := range sides {
		draws := make([]float64, w.sizes)
		for rep := range w.reps[side] {
			run := w.shift*rng.NormFloat64() + w.drift*float64(rep)
			for k := range w.sizes * max(1, w.passes) {
				size := k % w.sizes
				if w.drawn > 0 && k < w.sizes && (rep == 0 || !w.inRun) {
					draws[size] = w.drawn * rng.NormFloat64()
				}
				ln := draws[size] + math.Log(20) + 0.3*float64(size) + run + draw(rng, w.noise(size)*w.loudness(side))
				if side == 1 {
					ln += w.change(size)
					if rep == 1 && w.disturbed != nil {
						ln += w.disturbed(size)
					}
				}
				source := fmt.Sprintf("%d.log:%d", rep, size)
				if w.inRun {
					source = fmt.Sprintf("all.log:%d", size)
				}
				sides[side] = append(sides[side], bench.Sample{
					Call: nccl.Call{Coll: nccl.CollAllReduce, Bytes: 4096 << size}, DType: "float", RedOp: "sum",
					Config: nccl.Config{Cell: nccl.NoCell}, Comm: nccl.Comm{Nodes: 2, Ranks: 16},
					Micros: math.Round(100*math.Exp(ln)) / 100, Selection: bench.SelectionDefault, Source: source,
				})
			}
		}
	}
	return Two(sides[0], sides[1], w.options)
}

// figures count what many tables say.
type figures struct {
	tables, alarmed int // tables with a verdict
	// verdicts on sizes that changed, and those on sizes that did not or with the wrong sign
	rows, found, wrong  float64
	changed, covered    float64
	means, meansCovered float64
	meansFound          float64
	wrongShare          float64 // mean over tables of the wrong ones among the verdicts
}

func (w world) figures(seed uint64, tables int) (f figures) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for range tables {
		t := w.sample(rng)
		g := t.Sections[0]
		verdicts, wrong := 0.0, 0.0
		truth := 0.0
		for i, r := range g.Rows {
			change := w.change(i)
			truth += change / float64(len(g.Rows))
			f.rows++
			if change != 0 {
				f.changed++
			}
			if r.Verdict == Faster || r.Verdict == Slower {
				verdicts++
				if change == 0 || change > 0 != (r.Verdict == Slower) {
					wrong++
					f.wrong++
				} else {
					f.found++
				}
			}
			if math.Log(float64(r.Low)) <= change && change <= math.Log(float64(r.High)) {
				f.covered++
			}
		}
		if m := g.Mean; m.test != nil {
			f.means++
			if math.Log(float64(m.Low)) <= truth && truth <= math.Log(float64(m.High)) {
				f.meansCovered++
			}
			if m.Verdict == Faster || m.Verdict == Slower {
				f.meansFound++
				if truth == 0 {
					verdicts++
					wrong++
				}
			}
		}
		f.tables++
		if verdicts > 0 {
			f.alarmed++
			f.wrongShare += wrong / verdicts
		}
	}
	f.wrongShare /= float64(tables)
	return f
}

// outliers adds to one value in twenty up to 20 times the noise and more, as a neighbour on the network does.
func outliers(rng *rand.Rand, sigma float64) float64 {
	if rng.Float64() < 0.05 {
		return math.Abs(20 * sigma * rng.NormFloat64())
	}
	return sigma * rng.NormFloat64()
}

// twoModes is a size at which NCCL is as often in one state as in another, 10 % slower.
func twoModes(rng *rand.Rand, sigma float64) float64 {
	if rng.Float64() < 0.5 {
		return 0.1 + sigma*rng.NormFloat64()
	}
	return sigma * rng.NormFloat64()
}

const percents = 0.01

// patchy noise is 5 times as much at every fifth size.
func patchy(size int) float64 {
	if size%5 == 4 {
		return 5 * percents
	}
	return percents
}

// some sizes take 5 % longer.
func some(size int) float64 {
	if size%4 == 0 {
		return math.Log(1.05)
	}
	return 0
}

// Where nothing changed, one table in twenty has a verdict at most, whatever the noise is like.
func TestNothingChanged(t *testing.T) {
	tables := 150
	if testing.Short() {
		tables = 50
	}
	most := 0.05 + 3*math.Sqrt(0.05*0.95/float64(tables)) // and three standard deviations of what so many tables show
	for name, c := range map[string]struct {
		world
		sizes []int
		reps  [][2]int
	}{
		"normal": {world{noise: same(percents)}, []int{1, 3, 20}, [][2]int{{2, 2}, {3, 3}, {5, 5}, {3, 6},
			{8, 8}, {12, 9}}},
		"outliers": {world{noise: same(percents), draw: outliers}, []int{3, 20},
			[][2]int{{3, 3}, {3, 6}, {12, 9}}},
		"two modes": {world{noise: same(percents), draw: twoModes}, []int{20}, [][2]int{{8, 8}}},
		"shifted runs": {world{noise: same(percents), shift: percents}, []int{20},
			[][2]int{{2, 2}, {3, 3}, {12, 9}}},
		"patchy": {world{noise: patchy}, []int{20}, [][2]int{{3, 3}, {8, 8}}},
		"louder after": {world{noise: same(percents), louder: 5}, []int{1, 20},
			[][2]int{{3, 3}, {6, 3}, {3, 6}, {20, 8}}},
		"in one run": {world{noise: same(percents), inRun: true}, []int{20}, [][2]int{{3, 3}, {10, 10}}},
		"in one run, which draws 1 %": {world{noise: same(percents), inRun: true, drawn: percents}, []int{1, 11},
			[][2]int{{3, 3}, {5, 5}}},
		"passes, runs draw 1 %": {world{noise: same(percents), passes: 5, drawn: percents}, []int{1, 11},
			[][2]int{{2, 2}, {3, 3}, {5, 5}}},
		"passes, shifted runs": {world{noise: same(percents), passes: 5, shift: percents}, []int{3, 11},
			[][2]int{{2, 2}, {3, 3}}},
		"none": {world{noise: same(0)}, []int{20}, [][2]int{{3, 3}, {10, 10}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, reps := range c.reps {
				for _, sizes := range c.sizes {
					w := c.world
					w.sizes, w.reps, w.change = sizes, reps, same(0)
					f := w.figures(1, tables)
					if share := float64(f.alarmed) / float64(tables); share > most {
						t.Errorf("%d sizes, %d+%d repetitions: %.3f of the tables have a verdict", sizes, reps[0],
							reps[1], share)
					}
				}
			}
		})
	}
}

// Three or five runs a side with 0.3 % of noise: of 100 sizes that did not change at most 2 have a verdict, and of 100
// that changed by 3 % at least 95 do. Where nothing changed, at most one table in twenty has a verdict. So it is in
// turns while the machine drifts. Disturbances do not look like changes: a run that is slower as a whole or at some
// sizes, outliers, states between which sizes switch, a noisier side.
func TestFewRuns(t *testing.T) {
	three := math.Log(1.03)
	turns := Options{Alternating: true}
	at := func(by float64, sizes ...int) func(int) float64 {
		return func(size int) float64 { return map[bool]float64{true: by}[slices.Contains(sizes, size)] }
	}
	for name, w := range map[string]world{
		"nothing changed":                        {},
		"one size":                               {change: at(three, 7)},
		"one size, in turns":                     {change: at(three, 7), options: turns},
		"one size, in turns, with drift of both": {change: at(three, 7), options: turns, drift: 2 * percents},
		"five sizes":                             {change: at(three, 0, 4, 8, 12, 16)},
		"all sizes":                              {change: same(three)},
		"one run is slower":                      {disturbed: same(0.05)},
		"one run collapsed":                      {disturbed: at(math.Log(1.9), 4, 5, 6, 7, 8)},
		"one run collapsed elsewhere":            {change: at(three, 12), disturbed: at(math.Log(1.9), 4, 5, 6, 7, 8)},
		"shifted runs":                           {shift: percents},
		"outliers":                               {draw: outliers},
		"two modes":                              {draw: twoModes},
		"louder after":                           {louder: 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w.sizes, w.noise = 20, same(0.3*percents)
			if w.change == nil {
				w.change = same(0)
			}
			for _, runs := range []int{3, 5} {
				if w.drift > 0 && runs < leastPairs {
					continue
				}
				w.reps = [2]int{runs, runs}
				f := w.figures(5, 400)
				if wrong := f.wrong / (f.rows - f.changed); wrong > 0.02 {
					t.Errorf("%d runs: %.4f of the sizes that did not change have a verdict", runs, wrong)
				}
				if share := float64(f.alarmed) / float64(f.tables); f.changed == 0 && share > 0.05 {
					t.Errorf("%d runs: %.4f of the tables have a verdict", runs, share)
				}
				if found := f.found / f.changed; found < 0.95 {
					t.Errorf("%d runs: %.4f of the changes are found", runs, found)
				}
			}
		})
	}
}

// 5 % at 1 % of noise are nearly always found, and hardly ever where they are not.
func TestFivePercentAreFound(t *testing.T) {
	for _, c := range []struct {
		name         string
		w            world
		sizes, reps  int
		found, wrong float64
	}{
		{"all of them", world{change: same(math.Log(1.05))}, 20, 3, 0.98, 0},
		{"one size", world{change: same(math.Log(1.05))}, 1, 5, 0.99, 0},
		{"some of them, 3 times", world{change: some}, 20, 3, 0.9, 0.05},
		{"some of them, 5 times", world{change: some}, 20, 5, 0.995, 0.05},
		{"some of them, 10 times", world{change: some}, 20, 10, 0.995, 0.05},
		{"some of them in spite of outliers", world{change: some, draw: outliers}, 20, 12, 0.97, 0.05},
		{"all of them, faster", world{change: same(math.Log(0.95))}, 20, 3, 0.98, 0},
	} {
		c.w.sizes, c.w.reps, c.w.noise = c.sizes, [2]int{c.reps, c.reps}, same(percents)
		f := c.w.figures(2, 400)
		if share := f.found / f.changed; share < c.found || f.wrongShare > c.wrong {
			t.Errorf("%s: %.3f found (want %.3f), %.3f of the verdicts wrong (want %.3f)", c.name, share, c.found,
				f.wrongShare, c.wrong)
		}
	}
}

// Intervals hold the truth in 95 of 100 cases.
func TestIntervalsCover(t *testing.T) {
	for name, w := range map[string]world{
		"normal":       {noise: same(percents)},
		"outliers":     {noise: same(percents), draw: outliers},
		"shifted runs": {noise: same(percents), shift: percents},
	} {
		for _, reps := range [][2]int{{2, 2}, {3, 3}, {4, 7}, {8, 8}, {15, 15}} {
			for _, sizes := range []int{1, 20} {
				w.sizes, w.reps, w.change = sizes, reps, same(math.Log(1.02))
				if testing.Short() && reps[0] == 15 {
					continue
				}
				f := w.figures(3, 250/sizes+50)
				covered, means := f.covered/f.rows, f.meansCovered/f.means
				if covered < 0.9 || means < 0.9 || covered > 0.995 {
					t.Errorf("%s, %d sizes, %d+%d repetitions: the intervals hold the truth in %.3f, that of the "+
						"mean in %.3f", name, sizes, reps[0], reps[1], covered, means)
				}
			}
		}
	}
}

// Without repetitions on a side nothing has a verdict, neither a size nor the mean.
func TestOneRepetition(t *testing.T) {
	for _, reps := range [][2]int{{1, 1}, {5, 1}} {
		w := world{sizes: 20, reps: reps, noise: same(percents), draw: outliers, change: same(math.Log(1.05))}
		if f := w.figures(4, 50); f.alarmed != 0 || f.found != 0 || f.means != 0 {
			t.Errorf("%v: %+v", reps, f)
		}
	}
}

// A cluster that gets slower by 2 % from one pair of runs to the next: pairs do not see that, runs taken for alike
// drown in it.
func TestTurns(t *testing.T) {
	w := world{sizes: 20, reps: [2]int{6, 6}, noise: same(percents), change: some, drift: 2 * percents}
	alike := w.figures(7, 100)
	w.options.Alternating = true
	paired := w.figures(7, 400)
	if paired.found/paired.changed < 0.95 || alike.found/alike.changed > 0.5 || paired.wrongShare > 0.05 {
		t.Errorf("found: %.3f of pairs, %.3f else; %.3f of the verdicts wrong", paired.found/paired.changed,
			alike.found/alike.changed, paired.wrongShare)
	}
}
