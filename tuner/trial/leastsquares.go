package trial

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// An estimate holds effects and their covariance.
type estimate struct {
	n          int
	effect     *mat.VecDense
	covariance *mat.SymDense
	// What earlier jobs know: the inverse of its covariance, and that times the effects. An effect with 0 on the
	// diagonal is not known.
	known *mat.SymDense
	pull  *mat.VecDense
	prior float64 // variance of effects that are not known
}

// firstPrior is the standard deviation of effects, of a step, before anything is known.
const firstPrior = 0.02

func newEstimate(n int) estimate {
	e := estimate{n: n, prior: firstPrior * firstPrior}
	if n > 0 {
		e.effect, e.pull = mat.NewVecDense(n, nil), mat.NewVecDense(n, nil)
		e.covariance, e.known = mat.NewSymDense(n, nil), mat.NewSymDense(n, nil)
	}
	return e
}

// know takes over effects that earlier jobs have found, by column, and their variances. They are against one and the
// same thing, and its own variance is a part of each.
func (e *estimate) know(effects, variances map[int]float64, shared float64) {
	all := 1 / shared
	for i := range effects {
		all += 1 / (variances[i] - shared)
	}
	for i := range effects {
		for j := range effects {
			w := -1 / (variances[i] - shared) / (variances[j] - shared) / all
			if i == j {
				w += 1 / (variances[i] - shared)
			}
			e.known.SetSym(i, j, w)
			e.pull.SetVec(i, e.pull.AtVec(i)+w*effects[j])
		}
	}
}

// solve fits effects to rows of indicators by least squares, with a ridge towards what is known. The errors of values
// have about the same variance, at least a given one, which is not 0. A value counts up to so many standard deviations
// from what is expected (tails).
func (e *estimate) solve(rows []*mat.VecDense, values []float64, least float64) {
	const tails = 2
	clipped, noise := slices.Clone(values), least
	for _, v := range values {
		noise += v * v / float64(len(values))
	}
	for range 4 {
		a, b := mat.NewSymDense(e.n, nil), mat.VecDenseCopyOf(e.pull)
		a.CopySym(e.known)
		for i := range e.n {
			if a.At(i, i) == 0 {
				a.SetSym(i, i, 1/e.prior)
			}
		}
		for r, x := range rows {
			a.SymRankOne(a, 1/noise, x)
			b.AddScaledVec(b, clipped[r]/noise, x)
		}
		var chol mat.Cholesky
		if !chol.Factorize(a) {
			return // what is known is out of all bounds
		}
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
		for i := range e.n {
			variance := e.covariance.At(i, i)
			share := 1 - variance/e.prior // of what is known now that the rows have told
			if e.known.At(i, i) == 0 && share > 0.001 {
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
