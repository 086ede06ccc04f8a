package trial

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
)

// Estimate derives all that evidence says from its blocks.
func (e *Evidence) Estimate() {
	e.fit = e.regress()
	e.Blocks, e.Steps = 0, 0
	for _, f := range e.Factors {
		for k := range f.Arms {
			f.Arms[k].Blocks = 0
		}
	}
	for _, run := range e.Runs {
		for _, b := range run.Blocks {
			e.count(b)
		}
	}
	for i, f := range e.Factors {
		for k := range f.Arms {
			a, c := &f.Arms[k], e.difference(i, k, 0)
			a.Effect, a.Error, a.Dropped = max(c.by, -1), c.err, ""
			a.Faster = f.Known() && c.most < -Surely*c.err
		}
	}
	lost, _ := e.cost(e.Runs...)
	e.LostSteps, e.LostError = lost.by, lost.err
	e.dropArms()
}

// difference is by how much an arm of a factor makes a step longer than another does.
func (e *Evidence) difference(factor, arm, than int) contrast {
	one := make([]int, len(e.Factors))
	one[factor] = arm
	times := e.indicators(one)
	one[factor] = than
	floats.Sub(times, e.indicators(one))
	return e.fit.contrast(times)
}

// cost is how many steps longer runs have taken than with NCCL's choice, and how many they are.
func (e *Evidence) cost(runs ...Run) (lost contrast, made float64) {
	times := e.indicators(make([]int, len(e.Factors)))
	for _, run := range runs {
		known := slices.ContainsFunc(run.Blocks, func(b Block) bool { return b.Made > 0 })
		for _, b := range run.Blocks {
			if !known { // before releases noted it
				b.Made = float64(b.Steps + unsettled + 1)
			}
			floats.AddScaled(times, b.Made, e.indicators(b.Arms))
			made += b.Made
		}
	}
	return e.fit.contrast(times), made
}

// factor is the time of a step by these arms, relative to that by NCCL's choice.
func (e *Evidence) factor(arms []int) float64 {
	return e.fit.factor(e.indicators(arms))
}

// dropArms drops arms that are surely worse than the leader, or alike, without any one block as well.
func (e *Evidence) dropArms() {
	for i := range e.Factors {
		f := &e.Factors[i]
		leader := f.best()
		for k := range f.Arms {
			a := &f.Arms[k]
			if a.Dropped != "" || k == leader || a.Blocks < fewest {
				continue
			}
			behind := e.difference(i, k, leader)
			alike := behind.most+Surely*behind.err < little
			switch {
			case alike && k == 0:
				f.Arms[leader].Dropped = "alike"
				leader = k
			case alike:
				a.Dropped = "alike"
			case k == 0 && leader != f.Leader(): // see Leader
			case behind.least > worse*behind.err:
				a.Dropped = "worse"
			}
		}
		f.settle()
	}
}

// count counts a block that tells something.
func (e *Evidence) count(b Block) {
	if b.Steps == 0 {
		return
	}
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

// fit is what blocks tell of arms: what each adds to a step, as a share of the step with NCCL's choice.
type fit struct {
	rows    []row
	effects *mat.VecDense // nil where nothing was tried
	inverse *mat.SymDense // of the information that the rows hold
	scale   float64       // of effects: a variance

	inflation float64 // of standard errors: weights take some of normal noise, too, and few blocks do not tell it well
	tail      float64 // 1 of 20 blocks is off by more than so many standard errors (Surely), of those that count,
	farTail   float64 // and of all
}

// row is a block in a fit.
type row struct {
	arms     []float64 // indicators
	y        float64   // logarithm of a step's seconds
	variance float64   // of y, as the block's own steps tell
	run      int
	at       int // this row
	from, to int // the rows around it, which tell its level

	unexplained  float64       // what arms do not explain of y
	level        float64       // of that
	own, x       *mat.VecDense // what y tells of effects, and that less what its neighbours tell
	residual     float64       // off the level, and
	tells        float64       // that with what the effects so far explain of it, and
	standardized float64       // in standard deviations
	fullWeight   float64       // its weight (information) without heed to the residual
	weight       float64       // its weight
	out          bool          // it contradicts the others (trim)
	alone        bool          // with an arm: nothing contradicts it
	leverage     float64       // how much of what is expected here comes from the row itself, and
	fullLeverage float64       // how much would if it counted fully: nothing contradicts what alone tells of an arm
}

const (
	neighbours    = 4     // blocks before one and after it, whose median is its level
	rounds        = 16    // of weights
	huber         = 1.5   // standard deviations up to which a block counts fully in the first half of the rounds
	tukey         = 4.685 // standard deviations from which a block counts next to nothing in the second half
	leastWeight   = 1e-3  // "next to nothing"
	leastVariance = 1e-8  // of a block
	widest        = 0.3   // standard deviation of effects before any block has told of them
	firstScale    = 0.05  // and what their scale is found from
	fewBlocks     = 20    // which do not tell the noise of their run
	farOff        = 3     // standard deviations of blocks before effects are known
	agreeBetter   = 0.3   // the share of squares that only one block makes
	mostOut       = 12    // blocks that trim leaves out
	ridge         = 0.02  // of effects in trim: the square of noise over that of effects
	fewestFree    = 3     // degrees of freedom that are believed: blocks vary about as steps say
	saturated     = 0.85  // leverage of a block that is alone with an arm: its neighbours have the rest
)

// regress fits effects to blocks: an M-estimate by iterated weights (P. Huber and E. Ronchetti, Robust Statistics,
// 2009, chapter 7). Huber's weights come first, because they make no outlier of what an arm's blocks agree on. Tukey's
// follow, because outliers do not move them. The level wanders: it is the median of the neighbours, and what these tell
// of effects is taken off, too (P. Speckman, Kernel Smoothing in Partial Linear Models, 1988).
func (e *Evidence) regress() (f fit) {
	n := len(e.indicators(make([]int, len(e.Factors))))
	if n == 0 {
		return f
	}
	f.rows = e.rows(n)
	if len(f.rows) == 0 {
		return f
	}
	f.effects, f.inverse, f.scale = mat.NewVecDense(n, nil), mat.NewSymDense(n, nil), firstScale*firstScale
	variances := slices.Repeat([]float64{widest * widest}, n)
	f.residuals(len(e.Runs))
	f.trim()
	for round := range rounds {
		noise := f.residuals(len(e.Runs))
		if round > 0 {
			variances = f.prior(noise)
		}
		for i := range f.rows {
			r := &f.rows[i]
			counts := min(1, huber/math.Abs(r.standardized))
			if round >= rounds/2 {
				counts = max(leastWeight, math.Pow(max(0, 1-r.standardized*r.standardized/(tukey*tukey)), 2))
			}
			if counts = max(counts, math.Pow(r.fullLeverage, 8)); r.out {
				counts = leastWeight
			}
			r.weight, r.tells = counts*r.fullWeight, r.residual+mat.Dot(r.x, f.effects)
		}
		if !f.solve(variances) {
			break
		}
		for i := range f.rows {
			r := &f.rows[i]
			known := mat.Inner(r.x, f.inverse, r.x)
			r.leverage, r.fullLeverage = r.weight*known, r.fullWeight*known/(1+(r.fullWeight-r.weight)*known)
		}
	}
	f.finish()
	return f
}

// solve finds effects from what rows tell, by their weights. variances are those of effects before any is heard. It
// returns false where numbers are out of all bounds.
func (f *fit) solve(variances []float64) bool {
	n := len(variances)
	information, told := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil)
	for i, v := range variances {
		information.SetSym(i, i, 1/v)
	}
	for _, r := range f.rows {
		information.SymRankOne(information, r.weight, r.x)
		told.AddScaledVec(told, r.weight*r.tells, r.x)
	}
	var chol mat.Cholesky
	if !chol.Factorize(information) {
		return false
	}
	_ = chol.InverseTo(f.inverse) // an error only says that it is not accurate
	f.effects.MulVec(f.inverse, told)
	return true
}

// rows are the blocks of all runs, with n indicators each. Nothing tells the level of a block that is alone in its run,
// so it is left out.
func (e *Evidence) rows(n int) (rows []row) {
	for i, run := range e.Runs {
		first, last := len(rows), len(rows)+run.told()
		if first+1 == last {
			continue
		}
		for _, b := range run.Blocks {
			if at := len(rows); b.Steps > 0 {
				rows = append(rows, row{arms: e.indicators(b.Arms), y: b.Mean, variance: b.Variance,
					own: mat.NewVecDense(n, nil), x: mat.NewVecDense(n, nil), run: i, at: at,
					from: max(first, at-neighbours), to: min(last, at+neighbours+1)})
			}
		}
	}
	return rows
}

// residuals finds by how much blocks are off from what the effects so far say, and their weights without heed to that.
// It returns the noise of a block, of the noisiest run.
func (f *fit) residuals(runs int) float64 {
	for i := range f.rows {
		r := &f.rows[i]
		factor := f.factor(r.arms)
		r.unexplained = r.y - math.Log(factor)
		r.own.ScaleVec(1/factor, mat.NewVecDense(len(r.arms), r.arms))
	}
	levels := make([][]float64, runs)
	for i := range f.rows {
		r := &f.rows[i]
		r.x.CopyVec(r.own)
		var near []float64
		for _, o := range f.rows[r.from:r.to] {
			if o.at != r.at {
				near = append(near, o.unexplained)
			}
			r.x.AddScaledVec(r.x, -1/float64(r.to-r.from), o.own)
		}
		r.level = median(near)
		r.residual = (r.unexplained - r.level) * (1 - 1/float64(r.to-r.from)) // as x is less the mean, of itself too
		levels[r.run] = append(levels[r.run], r.level)
	}
	usual := make([]float64, runs)
	for i := range usual {
		usual[i] = median(levels[i])
	}
	noise := f.noise(runs)
	for i := range f.rows {
		r := &f.rows[i]
		variance := noise[r.run]*noise[r.run] + r.variance
		r.standardized = r.residual / math.Sqrt(variance)
		// Where something else makes steps longer, arms are a smaller share of them.
		r.fullWeight = min(1, math.Exp(2*(usual[r.run]-r.level))) / variance
	}
	return slices.Max(noise)
}

// trim leaves out blocks that contradict the others, before any fit could bend to them: those far off the usual without
// which the others agree far better, one after the other (least trimmed squares, P. Rousseeuw, 1984).
func (f *fit) trim() {
	var off []float64
	for i := range f.rows {
		r := &f.rows[i]
		r.weight, r.tells = 1, r.residual
		off = append(off, math.Abs(r.residual))
	}
	far, variances := farOff*stats.Sigma(off), slices.Repeat([]float64{1 / ridge}, f.effects.Len())
	for range min(len(f.rows)/6, mostOut) {
		if !f.solve(variances) {
			break
		}
		squares, blocks := 0.0, make([]float64, len(variances)) // of each arm that agree
		left := func(r row) float64 { return r.residual - mat.Dot(r.x, f.effects) }
		for _, r := range f.rows {
			if !r.out {
				squares += r.residual * left(r)
				floats.Add(blocks, r.arms)
			}
		}
		var worst *row
		most := agreeBetter * squares
		for i := range f.rows {
			r := &f.rows[i]
			r.alone = false
			for k, is := range r.arms {
				r.alone = r.alone || is > 0 && blocks[k] < 2
			}
			if less := left(*r) * left(*r) / (1 - mat.Inner(r.x, f.inverse, r.x)); less > most && !r.out &&
				math.Abs(r.residual) > far && !r.alone {
				worst, most = r, less
			}
		}
		if worst == nil {
			break
		}
		worst.out, worst.weight = true, 0
	}
	f.effects.Zero()
}

// prior is the variance of each effect before its blocks are heard, by what blocks tell of all effects. These have
// Student's distribution, whose tails leave large effects as they are (K. Lange, R. Little and J. Taylor, 1989). No
// effect is taken to be far below the noise of a block: what is lost in noise is not known to be nothing.
func (f *fit) prior(noise float64) []float64 {
	const tails, least, twice = 4, 0.25, 2
	variances, scale := make([]float64, f.effects.Len()), 0.0
	for i := range variances {
		square := f.effects.AtVec(i)*f.effects.AtVec(i) + f.inverse.At(i, i)
		variances[i] = square
		scale += square * (tails + 1) / (tails + square/f.scale) / float64(len(variances))
	}
	f.scale = max(scale, least*noise*noise)
	for i, square := range variances {
		variances[i] = twice * (tails*f.scale + square) / (tails + 1) // intervals hold when it is told with care
	}
	return variances
}

// factor is the time of a step by these arms, relative to that by NCCL's choice. No arms save nearly all of a step.
func (f *fit) factor(indicators []float64) float64 {
	factor := 1.0
	if f.effects == nil {
		return factor
	}
	for i, is := range indicators {
		factor += is * f.effects.AtVec(i)
	}
	return max(factor, 0.1)
}

// noise returns the standard deviation of a block, by run: the median of absolute deviations, in which residuals are
// corrected for their levers.
func (f *fit) noise(runs int) []float64 {
	off, all := make([][]float64, runs), []float64(nil)
	for _, r := range f.rows {
		if r.leverage < saturated {
			one := math.Abs(r.residual) / math.Sqrt(1-r.leverage)
			off[r.run], all = append(off[r.run], one), append(all, one)
		}
	}
	noise := make([]float64, runs)
	for i, of := range off {
		if noise[i] = math.Sqrt(leastVariance); len(of) > 0 {
			noise[i] = max(noise[i], stats.Sigma(of))
		}
		if len(of) < fewBlocks && len(all) > 0 {
			noise[i] = max(noise[i], stats.Sigma(all))
		}
	}
	return noise
}

// finish finds what standard errors need.
func (f *fit) finish() {
	var off, all []float64
	free, weights, slopes := 0.0, 0.0, 0.0 // degrees of freedom; Tukey's function
	for _, r := range f.rows {
		free += r.weight/r.fullWeight*(1-1/float64(r.to-r.from)) - r.leverage // the level has a share, too
		if one := math.Abs(r.residual) / (1 - r.leverage); r.leverage < saturated {
			if all = append(all, one); math.Abs(r.standardized) < tukey {
				off = append(off, one)
			}
		}
		if u := r.standardized * r.standardized / (tukey * tukey); u < 1 {
			weights += (1 - u) * (1 - u)
			slopes += (1 - u) * (1 - 5*u)
		}
	}
	f.inflation = 2.0
	if slopes > weights/2 {
		f.inflation = weights / slopes
	}
	f.inflation *= stats.Location{Variance: 1, DF: max(free, fewestFree)}.Half() / Surely
	quantile := func(of []float64) float64 {
		if slices.Sort(of); len(of) > 0 {
			return of[len(of)*19/20] / Surely
		}
		return 0
	}
	f.tail, f.farTail = quantile(off), quantile(all)
}

// contrast is a sum of effects, its standard error, and the least and the most that it is without any one block.
type contrast struct{ by, err, least, most float64 }

// contrast finds a sum of effects that are taken so many times. Its variance is that of the weights, or that of a
// jackknife over the blocks (J. MacKinnon and H. White, 1985), whichever is larger. The jackknife adds the covariance
// of adjacent blocks (W. Newey and K. West, 1987).
func (f *fit) contrast(times []float64) (c contrast) {
	if f.effects == nil { // nothing is known
		if c.err = widest * floats.Norm(times, 2); c.err > 0 {
			c.least, c.most = math.Inf(-1), math.Inf(1)
		}
		return c
	}
	d, v := mat.NewVecDense(len(times), times), mat.NewVecDense(len(times), nil)
	v.MulVec(f.inverse, d)
	c.by = mat.Dot(d, f.effects)
	c.least, c.most = c.by, c.by
	variance, squares, together, before := mat.Dot(d, v), 0.0, 0.0, 0.0
	for _, r := range f.rows {
		influence := r.weight * mat.Dot(v, r.x) // by how much the block's time influence the sum
		one := 0.0                              // how much of the sum is due to the block
		if r.leverage < saturated {
			one = influence * r.residual / (1 - r.leverage)
			c.least, c.most = min(c.least, c.by-one), max(c.most, c.by-one)
		} else { // without it nothing is known of an arm, or of several of which it tells the sum
			alone := influence * mat.Dot(r.x, f.effects) / r.leverage
			c.least, c.most = min(c.least, c.by-alone), max(c.most, c.by-alone)
		}
		// High leverage hides the residual: the fit follows such a block. Its residual may be as large as others' are.
		unseen := math.Max(0, 2*r.leverage-1)
		size := f.tail
		if r.alone {
			size = f.farTail
		}
		squares += (1-unseen)*one*one + unseen*influence*influence*size*size
		if r.at > r.from {
			together += 2 * one * before
		}
		before = one
	}
	c.err = f.inflation * math.Sqrt(max(variance, squares+max(0, together)))
	c.err = min(c.err, max(widest*floats.Norm(times, 2), math.Abs(c.by)))
	return c
}

// median is 0 without values.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return stats.Median(values)
}
