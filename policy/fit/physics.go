package fit

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// Terms of the physics: microseconds as a sum of non-negative multiples of these,
// in order. s is bytes, c is channels.
//
//	1           start of a kernel, latency that nothing hides
//	c           work per channel: barriers, proxy threads
//	s/c         bytes that one channel moves
//	s           bytes that the links move, however many channels share them
//	1/c         work that channels share out
//	sqrt(s)     the way from latency to bandwidth: a pipeline fills
//	sqrt(s/c)   the same, per channel
//	s*c         channels in each other's way
const numTerms = 8

func terms(s, c float64) [numTerms]float64 {
	return [numTerms]float64{1, c, s / c, s, 1 / c, math.Sqrt(s), math.Sqrt(s / c), s * c}
}

// physics holds one coefficient per term, each >= 0 and not all 0.
type physics [numTerms]float64

// micros is > 0 for s, c >= 1.
func (p *physics) micros(s, c float64) float64 {
	t := terms(s, c)
	sum := 0.0
	for i, w := range p {
		sum += w * t[i]
	}
	return sum
}

// fitPhysics finds the coefficients with the least sum of squared relative
// errors. weights are the points' shares; nil gives all the same.
func fitPhysics(s, c, micros, weights []float64) physics {
	n := len(s)
	a := mat.NewDense(n, numTerms, nil)
	b := mat.NewVecDense(n, nil)
	scale := [numTerms]float64{}
	for i := range n {
		w := 1.0
		if weights != nil {
			w = weights[i]
		}
		for j, t := range terms(s[i], c[i]) {
			v := w * t / micros[i]
			a.Set(i, j, v)
			scale[j] = math.Hypot(scale[j], v)
		}
		b.SetVec(i, w)
	}
	// Columns of length 1 make tolerances mean the same for all.
	for j := range numTerms {
		for i := range n {
			a.Set(i, j, a.At(i, j)/scale[j])
		}
	}
	x := nonNegativeLeastSquares(a, b)
	var p physics
	for j := range p {
		p[j] = x[j] / scale[j]
	}
	return p
}

// nonNegativeLeastSquares minimises |a x - b| over x >= 0, by the active-set
// method of Lawson and Hanson (1974), on the normal equations: a has few columns
// of length 1.
func nonNegativeLeastSquares(a *mat.Dense, b *mat.VecDense) []float64 {
	_, n := a.Dims()
	var ata mat.SymDense
	ata.SymOuterK(1, a.T())
	var atb mat.VecDense
	atb.MulVec(a.T(), b)

	x := make([]float64, n)
	free := make([]bool, n)
	const tolerance = 1e-10
	for range 10 * n {
		best, most := -1, tolerance*float64(n)
		for j := range n {
			if free[j] {
				continue
			}
			g := atb.AtVec(j)
			for k := range n {
				g -= ata.At(j, k) * x[k]
			}
			if g > most {
				best, most = j, g
			}
		}
		if best < 0 {
			break
		}
		free[best] = true
		for {
			z, ok := solveFree(&ata, &atb, free)
			if !ok { // the new column is a combination of the others
				free[best] = false
				return x
			}
			step := 1.0
			for j := range n {
				if free[j] && z[j] <= 0 {
					step = min(step, x[j]/(x[j]-z[j]))
				}
			}
			done := true
			for j := range n {
				if !free[j] {
					continue
				}
				x[j] += step * (z[j] - x[j])
				if z[j] <= 0 && x[j] <= tolerance {
					x[j], free[j], done = 0, false, false
				}
			}
			if done {
				break
			}
		}
	}
	return x
}

// solveFree solves the normal equations over the free columns.
func solveFree(ata *mat.SymDense, atb *mat.VecDense, free []bool) ([]float64, bool) {
	var at []int
	for j, f := range free {
		if f {
			at = append(at, j)
		}
	}
	sub := mat.NewSymDense(len(at), nil)
	rhs := mat.NewVecDense(len(at), nil)
	for i, p := range at {
		rhs.SetVec(i, atb.AtVec(p))
		for j := i; j < len(at); j++ {
			v := ata.At(p, at[j])
			if i == j {
				v += 1e-12
			}
			sub.SetSym(i, j, v)
		}
	}
	var chol mat.Cholesky
	if !chol.Factorize(sub) {
		return nil, false
	}
	var z mat.VecDense
	if err := chol.SolveVecTo(&z, rhs); err != nil {
		return nil, false
	}
	out := make([]float64, len(free))
	for i, p := range at {
		out[p] = z.AtVec(i)
	}
	return out, true
}
