package trial

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Gains of 2 % and more of four kinds of calls with 20 candidates are validated soon.
func TestValidatedSoon(t *testing.T) {
	var took []float64
	validated, n := 0, jobs(12)
	for seed := range uint64(n) {
		dice := rand.New(rand.NewPCG(213, seed))
		effects := make([][]float64, 4)
		for best := 0.0; best > -0.02; {
			best = 0
			for i := range effects {
				effects[i] = make([]float64, 6)
				for k := range effects[i][1:] {
					effects[i][k+1] = math.Max(-0.04, 0.02+0.03*dice.NormFloat64())
				}
				best += slices.Min(effects[i])
			}
		}
		j := learn(t, effects)
		j.now, j.dice = j.now.Add(times(time.Hour, dice.Float64())), dice
		calm := j.took
		j.took = func(v *playedVersion) time.Duration { return times(calm(v), 1.5) }
		e := j.end()
		if e.State == Learned {
			validated++
		}
		took = append(took, float64(j.call)/5)
		t.Logf("seed %d: %s after %.0f steps, %d blocks; proof %+v", seed, e.State, took[seed], e.Blocks, e.Result)
	}
	t.Logf("%d of %d are validated, after %.0f steps in the median", validated, n, median(took))
	if validated < n*9/10 || median(took) > 1500 {
		t.Error("that is too seldom, or too late")
	}
}
