package trial

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// Steps may be found anew as several of those that were found first, or as a part of one, as where they alternate for a
// while after an evaluation. What their blocks tell is of the step that was found first.
func TestStepsOfAnotherPeriod(t *testing.T) {
	for _, first := range []uint64{5, 10} { // calls
		j := learn(t, [][]float64{{0, -0.01, 0.03}, {0, 0.004, 0.006}, {0, -0.006}})
		choose := j.s.Learn.Choose
		j.s.Learn.Choose = func(calls map[uint64]int, step time.Duration) ([]Factor, []string) {
			for hash := range calls {
				calls[hash] /= int(first / 5)
			}
			return choose(calls, step)
		}
		even, alternates := j.took, first == 10
		j.took = func(v *playedVersion) time.Duration {
			if alternates {
				return times(even(v), []float64{1.8, 0.2}[j.call/5%2])
			}
			return even(v)
		}
		j.until(func() bool { return j.s.experiment != nil && j.s.Evidence.Blocks >= 5 })
		train, others := j.calls, 0
		for range 4 {
			j.calls = []uint64{7, 8, 7, 9}
			j.run(12 * time.Second)
			j.calls, alternates = train, !alternates
			j.run(30 * time.Second)
			if j.s.steps.period > 0 && j.s.steps.period != first {
				others++
			}
			alternates = first == 10
			j.run(10 * time.Second)
		}
		if others == 0 {
			t.Fatalf("no step is found as another than %d calls", first)
		}
		for i, b := range j.s.Evidence.Runs[0].Blocks {
			if b.Steps < wrongSteps { // only then is it seen that steps alternate
				continue
			}
			want, most := 0.1*float64(first/5), int(150*5/first)
			if s := math.Exp(b.Mean); s < 0.8*want || s > 1.2*want || b.Steps > most {
				t.Errorf("block %d has %d steps of %.0f ms; the first took %.0f to %.0f ms", i, b.Steps, 1000*s, 1000*want,
					1150*want)
			}
		}
	}
}

// However long changes take, most steps count, and what is tried is not believed to stay away.
func TestSlowChanges(t *testing.T) {
	effects := make([][]float64, 4)
	for i := range effects {
		effects[i] = make([]float64, 6)
		effects[i][1] = -0.01
	}
	phases := 6
	if testing.Short() {
		phases = 1
	}
	for _, ms := range []int{200, 500, 1100, 1500, 1900, 2100, 2500, 2950, 3100, 4500, 5300, 6100, 7500, 9000} {
		for _, jitter := range []float64{0, 0.1} {
			worst := 1.0
			for phase := range phases {
				j := learn(t, effects)
				j.dice = rand.New(rand.NewPCG(71, uint64(100*ms+phase)))
				j.skew = time.Duration(phase) * 470 * time.Millisecond
				calm := j.took
				j.took = func(v *playedVersion) time.Duration {
					j.slow = times(time.Duration(ms)*time.Millisecond, 1+jitter*(2*j.dice.Float64()-1)) - 700*time.Millisecond
					return times(calm(v), 1.5)
				}
				j.until(func() bool { return j.s.experiment != nil })
				began := j.now
				j.run(4 * time.Minute)
				if j.log.count("does not become active") > 0 {
					t.Errorf("a change takes %d ms: it ends; the log: %v", ms, j.log.lines)
				}
				if j.over() || j.s.tried != nil {
					continue
				}
				worst = min(worst, float64(j.s.Evidence.Steps)*j.s.Evidence.StepSeconds/j.now.Sub(began).Seconds())
			}
			t.Logf("a change takes %d ms +- %.0f %%: %.0f %% of the steps count, at worst", ms, 100*jitter, 100*worst)
			if worst < 0.8 {
				t.Errorf("a change takes %d ms +- %.0f %%: only %.0f %% of the steps count", ms, 100*jitter, 100*worst)
			}
		}
	}
}

// While nothing tells steps, as under a load that makes them vary, what happens to be tried does not stay in force.
func TestNothingStaysUnseen(t *testing.T) {
	for seed := range uint64(10) {
		j := learn(t, learningEffects)
		j.dice = rand.New(rand.NewPCG(81, seed))
		j.until(func() bool { return j.s.experiment != nil && j.s.Evidence.Blocks >= 10 })
		calm := j.took
		since, was, most := j.now, j.inForce, time.Duration(0)
		j.took = func(v *playedVersion) time.Duration {
			if j.inForce != was {
				was, since = j.inForce, j.now
			}
			if was != j.versions[""] {
				most = max(most, j.now.Sub(since))
			}
			return times(calm(v), math.Exp(1.5*j.dice.NormFloat64()))
		}
		train := j.calls
		j.calls = evaluationCalls
		j.run(10 * time.Second)
		j.calls = train
		if j.run(10 * time.Minute); most > 3*j.s.length+5*time.Second {
			t.Errorf("seed %d: a candidate stayed in force for %v, in blocks of %v", seed, most, j.s.length)
		}
	}
}

// However many steps the host is ahead of the GPU, what is told of arms holds.
func TestHostAhead(t *testing.T) {
	for _, ahead := range []int{0, 2, 4, 8, 15, 30, 40} { // steps
		var h held
		for seed := range uint64(jobs(2)) {
			j, _, effects := lossyJob(t, 700+seed)
			calm := j.took
			var made []*playedVersion
			j.took = func(v *playedVersion) time.Duration {
				made = append(made, v)
				return times(calm(made[max(0, len(made)-1-5*ahead)]), 1.5)
			}
			for i, f := range j.end().Factors {
				for k, a := range f.Arms[1:] {
					h.add(a, effects[i][k+1])
				}
			}
		}
		t.Logf("%d steps ahead: %.0f of %.0f intervals hold, %.0f of the %.0f above 1 %%", ahead, h.of, h.all, h.ofLarge, h.large)
		if h.of < 0.85*h.all || h.ofLarge < 0.85*h.large {
			t.Errorf("%d steps ahead: only %.0f of %.0f intervals hold, %.0f of the %.0f above 1 %%", ahead, h.of, h.all,
				h.ofLarge, h.large)
		}
	}
}
