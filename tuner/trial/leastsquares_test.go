package trial

import (
	"math"
	"testing"
)

// What an earlier job knows stands until there is more: effects, their errors, and that all of these have the error of
// NCCL's choice in common.
func TestKnow(t *testing.T) {
	e := newEstimate(4)
	effects, variances := map[int]float64{0: -0.02, 2: 0.01}, map[int]float64{0: 9e-6, 2: 25e-6}
	const shared = 4e-6
	e.know(effects, variances, shared)
	e.solve(nil, nil, leastVariance)
	for i, want := range effects {
		if got, v := e.effect.AtVec(i), e.covariance.At(i, i); math.Abs(got-want) > 1e-9 || math.Abs(v-variances[i]) > 1e-12 {
			t.Errorf("effect %d is %g with variance %g", i, got, v)
		}
	}
	if got := e.covariance.At(0, 2); math.Abs(got-shared) > 1e-12 {
		t.Errorf("the covariance is %g", got)
	}
	if v := e.covariance.At(1, 1); e.effect.AtVec(1) != 0 || math.Abs(v-firstPrior*firstPrior) > 1e-12 {
		t.Errorf("the variance of what is not known is %g", v)
	}
	e.know(effects, map[int]float64{0: 9e-6, 2: 25e-6}, 9e-6) // no job writes that
	e.solve(nil, nil, leastVariance)
}
