package trial

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// fit is what all blocks tell: effects on the logarithm of a step's time, against NCCL's choice, and their covariance.
// Both are nil where there is nothing to try.
type fit struct {
	effect     *mat.VecDense
	covariance *mat.SymDense
}

// row is what a block tells: its indicators, and its time, both less the level of the blocks before.
type row struct {
	x   *mat.VecDense
	y   float64
	run int
}

// Time drifts from block to block: how much of a block's difference from the level is taken for that.
const wander = 0.36

// leastVariance is that of a block's mean.
const leastVariance = 1e-8

// estimate finds effects from all blocks. The logarithm of a block's step time is a level that wanders, plus the
// effects of its arms, plus noise. The level is the mean of the run's blocks before, the latest counting most.
func (e *Evidence) estimate() {
	var rows []row
	least := make([]float64, len(e.Runs)) // variance of a value
	n := len(e.indicators(make([]int, len(e.Factors))))
	for r, run := range e.Runs {
		var level []float64
		least[r] = leastVariance
		for _, b := range run.Blocks {
			least[r] += b.Variance / 4 / float64(len(run.Blocks))
			z := append(e.indicators(b.Arms), b.Mean)
			if level == nil || n == 0 {
				level = z
				continue
			}
			for i := range z {
				z[i] -= level[i]
				level[i] += wander * z[i]
			}
			rows = append(rows, row{mat.NewVecDense(n, z[:n]), z[n], r})
		}
	}
	if e.fit = (fit{}); n > 0 {
		e.fit = leastSquares(n, rows, least)
	}
	e.Blocks, e.Steps, e.LostSteps = 0, 0, 0
	for i := range e.Factors {
		for k := range e.Factors[i].Arms {
			a := &e.Factors[i].Arms[k]
			effect, err := e.difference(e.only(i, k), e.only(i, 0))
			a.Effect, a.Error, a.Blocks = math.Expm1(effect), err, 0
		}
	}
	for _, run := range e.Runs {
		for _, b := range run.Blocks {
			e.count(b)
			e.LostSteps += float64(b.Steps) * math.Expm1(e.predicted(b.Arms))
		}
	}
}

// count counts a block.
func (e *Evidence) count(b Block) {
	e.Blocks++
	e.Steps += b.Steps
	for i, k := range b.Arms {
		if k >= 0 {
			e.Factors[i].Arms[k].Blocks++
		}
	}
}

// indicators has one for each arm but NCCL's choice: all effects are against that.
func (e *Evidence) indicators(arms []int) (x []float64) {
	for i, f := range e.Factors {
		for k := range f.Arms[1:] {
			is := 0.0
			if arms[i] == k+1 {
				is = 1
			}
			x = append(x, is)
		}
	}
	return x
}

// only is an arm of one factor, and NCCL's choice of all others.
func (e *Evidence) only(factor, arm int) []int {
	arms := make([]int, len(e.Factors))
	arms[factor] = arm
	return arms
}

// difference is by how much steps by these arms are longer than by those, and the standard error of that.
func (e *Evidence) difference(these, those []int) (by, err float64) {
	if e.fit.effect == nil {
		return 0, 0
	}
	x := e.indicators(these)
	for i, v := range e.indicators(those) {
		x[i] -= v
	}
	d := mat.NewVecDense(len(x), x)
	return mat.Dot(d, e.fit.effect), math.Sqrt(max(mat.Inner(d, e.fit.covariance, d), 0))
}

// predicted is by how much steps by these arms are longer than by NCCL's choice.
func (e *Evidence) predicted(arms []int) (by float64) {
	for i, is := range e.indicators(arms) {
		if is > 0 {
			by += e.fit.effect.AtVec(i)
		}
	}
	return by
}

// leastSquares fits n effects to rows. Those of a run have about the same variance, at least the given one, which is
// not 0. Where they are few, they do not tell it, so it is at least that of all runs. A row counts up to so many
// standard deviations from what is expected (tails). The ridge is the variance of the effects themselves, so that where
// nothing matters, noise is not taken for effects (D. MacKay, Bayesian Interpolation, 1992).
func leastSquares(n int, rows []row, least []float64) fit {
	const firstRidge, tails, rounds, few = 0.02 * 0.02, 2, 10, 20
	f := fit{mat.NewVecDense(n, nil), mat.NewSymDense(n, nil)}
	ridge, told := firstRidge, 0.0
	variance, y := slices.Repeat([]float64{math.Inf(1)}, len(least)), make([]float64, len(rows))
	for range rounds {
		noise, free, ofAll := make([]float64, len(least)), make([]float64, len(least)), 0.0
		for i, r := range rows {
			expected, most := mat.Dot(r.x, f.effect), tails*math.Sqrt(variance[r.run])
			off := min(max(r.y-expected, -most), most)
			y[i] = expected + off
			noise[r.run] += off * off
			ofAll += off * off / max(float64(len(rows))-told, 1)
			free[r.run] += 1 - told/float64(len(rows))
		}
		for run := range variance {
			if variance[run] = max(noise[run]/max(free[run], 1), least[run]); free[run] < few {
				variance[run] = max(variance[run], ofAll)
			}
		}
		a, b := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil)
		for i := range n {
			a.SetSym(i, i, 1/ridge)
		}
		for i, r := range rows {
			a.SymRankOne(a, 1/variance[r.run], r.x)
			b.AddScaledVec(b, y[i]/variance[r.run], r.x)
		}
		var chol mat.Cholesky
		if !chol.Factorize(a) {
			break // numbers are out of all bounds
		}
		_ = chol.InverseTo(f.covariance) // an error only says that it is not accurate
		f.effect.MulVec(f.covariance, b)
		told = 0
		for i := range n {
			told += 1 - f.covariance.At(i, i)/ridge // the share of what is known that the rows have told
		}
		if told > 0 {
			ridge = mat.Dot(f.effect, f.effect)/told + leastVariance
		}
	}
	return f
}
