package trial

import (
	"math"
	"slices"
)

// An estimate holds effects and their covariance.
type estimate struct {
	effect     []float64
	covariance [][]float64
	known      []knowledge // of earlier jobs
	prior      float64     // variance of effects, as far as is known: it makes the ridge
}

// knowledge is an effect and its variance; 0: nothing is known.
type knowledge struct{ effect, variance float64 }

func newEstimate(n int) estimate {
	e := estimate{make([]float64, n), make([][]float64, n), make([]knowledge, n), firstPrior * firstPrior}
	for i := range e.covariance {
		e.covariance[i] = make([]float64, n)
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
	scale := 1.0 // of the variance of errors
	weights := make([]float64, len(rows))
	for i := range weights {
		weights[i] = 1
	}
	for range 3 {
		a := make([][]float64, n)
		b, ridge := make([]float64, n), make([]float64, n)
		for i := range a {
			a[i] = make([]float64, n)
			a[i][i] = scale / e.prior
			if k := e.known[i]; k.variance > 0 { // a ridge towards that
				a[i][i] = scale / k.variance
				b[i] = scale * k.effect / k.variance
			}
			ridge[i] = a[i][i]
		}
		for r, x := range rows {
			w := weights[r]
			for i, xi := range x {
				if xi == 0 {
					continue
				}
				b[i] += w * xi * values[r]
				for j := 0; j <= i; j++ {
					a[i][j] += w * xi * x[j]
				}
			}
		}
		for i := range a {
			for j := range i {
				a[j][i] = a[i][j]
			}
		}
		inverse := invert(a)
		used := 0.0
		for i := range e.effect {
			e.effect[i] = 0
			used += 1 - inverse[i][i]*ridge[i]
			for j := range b {
				e.effect[i] += inverse[i][j] * b[j]
			}
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
		for i := range inverse {
			for j := range inverse {
				e.covariance[i][j] = scale * inverse[i][j]
			}
		}
		// The prior follows from the effects themselves, so that where nothing matters, noise is not taken for effects.
		// What was not tried tells nothing of it: its variance is that of the prior.
		spread, tried := 0.0, 0
		for i, effect := range e.effect {
			if slices.ContainsFunc(rows, func(x []float64) bool { return x[i] != 0 }) {
				spread += effect*effect + e.covariance[i][i]
				tried++
			}
		}
		if e.prior = leastPrior * leastPrior; tried > 0 {
			e.prior += spread / float64(tried)
		}
	}
}

// invert inverts a symmetric positive definite matrix (Gauss and Jordan), and spoils it.
func invert(a [][]float64) [][]float64 {
	n := len(a)
	inverse := make([][]float64, n)
	for i := range inverse {
		inverse[i] = make([]float64, n)
		inverse[i][i] = 1
	}
	for i := range a {
		pivot := 1 / a[i][i]
		for j := range n {
			a[i][j] *= pivot
			inverse[i][j] *= pivot
		}
		for k := range a {
			if f := a[k][i]; k != i && f != 0 {
				for j := range n {
					a[k][j] -= f * a[i][j]
					inverse[k][j] -= f * inverse[i][j]
				}
			}
		}
	}
	return inverse
}
