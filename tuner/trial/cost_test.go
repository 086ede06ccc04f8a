package trial

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// lossyJob is a job of 4 kinds of calls with 5 arms each, most of which are slower, what it has truly lost by now, and the
// true effects.
func lossyJob(t *testing.T, seed uint64) (j *learningJob, lost *float64, effects [][]float64) {
	dice := rand.New(rand.NewPCG(61, seed))
	effects = make([][]float64, 4)
	for i := range effects {
		effects[i] = make([]float64, 5)
		for k := range effects[i][1:] {
			effects[i][k+1] = math.Max(-0.04, 0.02+0.03*dice.NormFloat64())
		}
	}
	j, lost = learn(t, effects), new(float64)
	j.now, j.dice = j.now.Add(times(time.Hour, dice.Float64())), dice
	calm := j.took
	j.took = func(v *playedVersion) time.Duration {
		for i, k := range j.s.arms[v.EffectDigest()] {
			if j.s.tried == nil {
				*lost += effects[i][k] / 5
			} else if k > 0 { // what was found
				for i, k := range j.s.Evidence.leaders() {
					*lost += effects[i][k] / 5
				}
			}
		}
		return calm(v)
	}
	return j, lost, effects
}

// What trying costs is told as it is, with all steps that were made, also those that no block counts.
func TestCost(t *testing.T) {
	held := 0
	var off []float64
	n := jobs(15)
	for seed := range uint64(n) {
		j, lost, _ := lossyJob(t, seed)
		e := j.end()
		if math.Abs(*lost-e.LostSteps) <= Surely*e.LostError {
			held++
		}
		if math.Abs(*lost) > 20 {
			off = append(off, math.Abs(1 - e.LostSteps / *lost))
		}
		t.Logf("seed %d: %s, said %.1f (%.1f), truly %.1f", seed, e.State, e.LostSteps, Surely*e.LostError, *lost)
	}
	t.Logf("%d of %d intervals hold; costs of more than 20 steps are off by %.0f %% in the median", held, n, 100*median(off))
	if held < n*9/10 || median(off) > 0.2 {
		t.Errorf("%d of %d intervals hold; costs of more than 20 steps are off by %.0f %%", held, n, 100*median(off))
	}
}
