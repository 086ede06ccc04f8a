package trial

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// An estimate holds effects and their covariance.
type estimate struct {
	effect     *mat.VecDense
	covariance *mat.SymDense
	known      []knowledge // of earlier jobs
	prior      float64     // variance of effects, as far as is known
}

// knowledge is an effect and its variance; 0: nothing is known.
type knowledge struct{ effect, variance float64 }

// firstPrior is the standard deviation of effects, of a step, before anything is known.
const firstPrior = 0.02

func newEstimate(n int) estimate {
	e := estimate{known: make([]knowledge, n), prior: firstPrior * firstPrior}
	if n > 0 {
		e.effect, e.covariance = mat.NewVecDense(n, nil), mat.NewSymDense(n, nil)
	}
	return e
}

// solve fits effects to rows of indicators by least squares, with a ridge towards what is known. The errors of values
// have about the same variance, at least a given one, which is not 0. A value counts up to so many standard deviations
// from what is expected (tails).
func (e *estimate) solve(rows []*mat.VecDense, values []float64, least float64) {
	const tails = 2
	n, clipped, noise := len(e.known), slices.Clone(values), least
	for _, v := range values {
		noise += v * v / float64(len(values))
	}
	for range 4 {
		a, b := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil)
		for i, k := range e.known {
			if k.variance == 0 {
				k.variance = e.prior
			}
			a.SetSym(i, i, 1/k.variance)
			b.SetVec(i, k.effect/k.variance)
		}
		for r, x := range rows {
			a.SymRankOne(a, 1/noise, x)
			b.AddScaledVec(b, clipped[r]/noise, x)
		}
		var chol mat.Cholesky
		chol.Factorize(a)
		_ = chol.InverseTo(e.covariance) // an error only says that it is not accurate
		e.effect.MulVec(e.covariance, b)

		squares, most := 0.0, tails*math.Sqrt(noise)
		for r, x := range rows {
			expected := mat.Dot(x, e.effect)
			off := min(max(values[r]-expected, -most), most)
			clipped[r] = expected + off
			squares += off * off
		}
		// The prior follows from the effects themselves, so that where nothing matters, noise is not taken for effects.
		sum, told, tried := 0.0, 0.0, 0.0
		for i, k := range e.known {
			variance := e.covariance.At(i, i)
			share := 1 - variance/e.prior // of what is known now that the rows have told
			if k.variance == 0 && share > 0.001 {
				sum += e.effect.AtVec(i)*e.effect.AtVec(i) + variance
				told, tried = told+share, tried+1
			}
		}
		noise = max(squares/max(float64(len(rows))-told, 1), least)
		if tried > 0 {
			e.prior = sum/tried + leastVariance
		}
	}
}
