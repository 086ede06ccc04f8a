package trial

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// An estimate holds effects and their covariance.
type estimate struct {
	effect     []float64
	covariance *mat.SymDense
	known      []knowledge // of earlier jobs
	prior      float64     // variance of effects, as far as is known: it makes the ridge
}

// knowledge is an effect and its variance; 0: nothing is known.
type knowledge struct{ effect, variance float64 }

func newEstimate(n int) estimate {
	e := estimate{make([]float64, n), &mat.SymDense{}, make([]knowledge, n), firstPrior * firstPrior}
	if n > 0 {
		e.covariance = mat.NewSymDense(n, nil)
	}
	return e
}

// Standard deviations of effects, of a step: before anything is known, and the least.
const (
	firstPrior = 0.02
	leastPrior = 0.0001
)

// tails bounds what one row may weigh: its residual counts up to so many standard deviations (Huber).
const tails = 2.5

// solve fits effects to rows of indicators whose errors have about the same variance, by least squares with a ridge.
// Rows that are far off weigh less.
func (e *estimate) solve(rows [][]float64, values []float64) {
	n := len(e.effect)
	if n == 0 {
		return
	}
	scale := 1.0 // of the variance of errors
	weights := make([]float64, len(rows))
	for i := range weights {
		weights[i] = 1
	}
	for range 3 {
		a, b, ridge := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil), make([]float64, n)
		for i, k := range e.known { // a ridge towards what is known
			ridge[i] = scale / e.prior
			if k.variance > 0 {
				ridge[i] = scale / k.variance
			}
			a.SetSym(i, i, ridge[i])
			b.SetVec(i, ridge[i]*k.effect)
		}
		for r, x := range rows {
			for i, xi := range x {
				if xi == 0 {
					continue
				}
				b.SetVec(i, b.AtVec(i)+weights[r]*xi*values[r])
				for j, xj := range x[:i+1] {
					if xj != 0 {
						a.SetSym(i, j, a.At(i, j)+weights[r]*xi*xj)
					}
				}
			}
		}
		var chol mat.Cholesky
		chol.Factorize(a)
		_ = chol.InverseTo(e.covariance) // an error only says that it is not accurate
		mat.NewVecDense(n, e.effect).MulVec(e.covariance, b)
		used := 0.0
		for i := range ridge {
			used += 1 - e.covariance.At(i, i)*ridge[i]
		}
		sum := 0.0
		for r, x := range rows {
			off := values[r]
			for i, xi := range x {
				off -= xi * e.effect[i]
			}
			sum += weights[r] * off * off
			weights[r] = off
		}
		scale = max(sum/max(float64(len(rows))-used, 1), 0.25)
		for r, off := range weights {
			weights[r] = min(1, tails*math.Sqrt(scale)/max(math.Abs(off), 1e-9))
		}
		e.covariance.ScaleSym(scale, e.covariance)
		// The prior follows from the effects themselves, so that where nothing matters, noise is not taken for effects.
		// What was not tried tells nothing of it: its variance is that of the prior.
		spread, tried := 0.0, 0
		for i, effect := range e.effect {
			if slices.ContainsFunc(rows, func(x []float64) bool { return x[i] != 0 }) {
				spread += effect*effect + e.covariance.At(i, i)
				tried++
			}
		}
		if e.prior = leastPrior * leastPrior; tried > 0 {
			e.prior += spread / float64(tried)
		}
	}
}
