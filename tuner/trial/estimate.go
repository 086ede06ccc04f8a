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
	c := e.cost(e.Runs...)
	e.LostSteps, e.LostError = c.by, c.err
	e.dropArms()
}

// fit is what blocks tell of arms: what each adds to a step, as a share of the step with NCCL's choice.
type fit struct {
	rows    []row
	effects *mat.VecDense // nil where nothing was tried
	inverse *mat.SymDense // of the information that the rows hold
	scale   float64       // of effects: a variance

	widening float64 // of standard errors: weights take some of normal noise, too, and few blocks do not tell it well
	wild     float64 // 1 of 20 blocks is off by more than so many standard errors (Surely)
}

// row is a block in a fit.
type row struct {
	arms     []float64 // indicators
	y        float64   // logarithm of a step's seconds
	variance float64   // of y, as the block's own steps tell
	run      int
	at       int // this row
	from, to int // the rows around it, which tell its level

	rest   float64       // what arms do not explain of y
	level  float64       // of that
	own, x *mat.VecDense // what y tells of effects, and that less what its neighbours tell
	off    float64       // of rest from the level, and
	scaled float64       // in standard deviations
	full   float64       // its weight: information, were it not off
	weight float64       // as the row counts
	lever  float64       // how much of what is expected here comes from the row itself, and
	alone  float64       // how much would if it counted fully: nothing contradicts what alone tells of an arm
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
	saturated     = 0.85  // lever of a block that is alone with an arm: its neighbours have the rest
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
	for i, run := range e.Runs {
		first, last := len(f.rows), len(f.rows)+len(run.Blocks)
		if first+1 == last {
			continue // nothing tells its level
		}
		for k, b := range run.Blocks {
			f.rows = append(f.rows, row{arms: e.indicators(b.Arms), y: b.Mean, variance: b.Variance,
				own: mat.NewVecDense(n, nil), x: mat.NewVecDense(n, nil), run: i, at: first + k, from: max(first, first+k-neighbours), to: min(last, first+k+neighbours+1)})
		}
	}
	if len(f.rows) == 0 {
		return f
	}
	f.effects, f.inverse, f.scale = mat.NewVecDense(n, nil), mat.NewSymDense(n, nil), firstScale*firstScale
	variances := slices.Repeat([]float64{widest * widest}, n)
	for round := range rounds {
		noise := f.expect(len(e.Runs))
		information, told := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil)
		if round > 0 {
			variances = f.expected(noise)
		}
		for i := range n {
			information.SetSym(i, i, 1/variances[i])
		}
		for i := range f.rows {
			r := &f.rows[i]
			counts := min(1, huber/math.Abs(r.scaled))
			if round >= rounds/2 {
				counts = max(leastWeight, math.Pow(max(0, 1-r.scaled*r.scaled/(tukey*tukey)), 2))
			}
			r.weight = max(counts, math.Pow(r.alone, 8)) * r.full
			information.SymRankOne(information, r.weight, r.x)
			told.AddScaledVec(told, r.weight*(r.off+mat.Dot(r.x, f.effects)), r.x)
		}
		var chol mat.Cholesky
		if !chol.Factorize(information) {
			break // numbers are out of all bounds
		}
		_ = chol.InverseTo(f.inverse) // an error only says that it is not accurate
		f.effects.MulVec(f.inverse, told)
		for i := range f.rows {
			r := &f.rows[i]
			known := mat.Inner(r.x, f.inverse, r.x)
			r.lever, r.alone = r.weight*known, r.full*known/(1+(r.full-r.weight)*known)
		}
	}
	f.finish()
	return f
}

// expect finds by how much blocks are off from what the effects so far say, and their weights apart from that. It
// returns the noise of a block, of the noisiest run.
func (f *fit) expect(runs int) float64 {
	for i := range f.rows {
		r := &f.rows[i]
		factor := f.factor(r.arms)
		r.rest = r.y - math.Log(factor)
		r.own.ScaleVec(1/factor, mat.NewVecDense(len(r.arms), r.arms))
	}
	levels := make([][]float64, runs)
	for i := range f.rows {
		r := &f.rows[i]
		r.x.CopyVec(r.own)
		var near []float64
		for _, o := range f.rows[r.from:r.to] {
			if o.at != r.at {
				near = append(near, o.rest)
			}
			r.x.AddScaledVec(r.x, -1/float64(r.to-r.from), o.own)
		}
		r.level = median(near)
		r.off = (r.rest - r.level) * (1 - 1/float64(r.to-r.from)) // as x is less the mean, of itself too
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
		r.scaled = r.off / math.Sqrt(variance)
		// Where something else makes steps longer, arms are a smaller share of them.
		r.full = min(1, math.Exp(2*(usual[r.run]-r.level))) / variance
	}
	return slices.Max(noise)
}

// expected are the variances of effects by what blocks tell so far. Their distribution is Student's, whose tails leave
// large effects as they are (K. Lange, R. Little and J. Taylor, 1989). Its scale is that of all arms, but no effect is
// taken to be far below the noise of a block: what is lost in noise is not known to be nothing.
func (f *fit) expected(noise float64) []float64 {
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
		if r.lever < saturated {
			one := math.Abs(r.off) / math.Sqrt(1-r.lever)
			off[r.run], all = append(off[r.run], one), append(all, one)
		}
	}
	const normal = 1.4826 // standard deviations in the median of absolute deviations
	noise, ofAll := make([]float64, runs), median(all)
	for i, of := range off {
		noise[i] = normal * median(of)
		if len(of) < fewBlocks {
			noise[i] = max(noise[i], normal*ofAll)
		}
		noise[i] = max(noise[i], math.Sqrt(leastVariance))
	}
	return noise
}

// finish finds what standard errors need.
func (f *fit) finish() {
	var off []float64
	free, weights, slopes := 0.0, 0.0, 0.0 // degrees of freedom; Tukey's function
	for _, r := range f.rows {
		free += 1 - r.lever
		if r.lever < saturated {
			off = append(off, math.Abs(r.off)/(1-r.lever))
		}
		if u := r.scaled * r.scaled / (tukey * tukey); u < 1 {
			weights += (1 - u) * (1 - u)
			slopes += (1 - u) * (1 - 5*u)
		}
	}
	f.widening = 2.0
	if slopes > weights/2 {
		f.widening = weights / slopes
	}
	f.widening *= stats.Location{Variance: 1, DF: max(free, 1)}.Half() / Surely
	if slices.Sort(off); len(off) > 0 {
		f.wild = off[len(off)*19/20] / Surely
	}
}

// contrast is a sum of effects, its standard error, and the least and the most that it is without any one block.
type contrast struct{ by, err, least, most float64 }

// contrast finds a sum of effects that are taken so many times. Its variance is that of the weights, or that of a
// jackknife over the blocks (J. MacKinnon and H. White, 1985), whichever is larger. A block that hangs together with
// the one before counts with it (W. Newey and K. West, 1987).
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
		moves := r.weight * mat.Dot(v, r.x) // by how much the block's time moves the sum
		one := 0.0                          // how much of the sum is due to the block
		if r.lever < saturated {
			one = moves * r.off / (1 - r.lever)
			c.least, c.most = min(c.least, c.by-one), max(c.most, c.by-one)
		} else { // without it nothing is known of an arm, or of several of which it tells the sum
			alone := moves * mat.Dot(r.x, f.effects) / r.lever
			c.least, c.most = min(c.least, c.by-alone), max(c.most, c.by-alone)
		}
		// A block that tells most of what is expected of it cannot show that it is off. It may be as any block is.
		unseen := math.Max(0, 2*r.lever-1)
		squares += (1-unseen)*one*one + unseen*moves*moves*f.wild*f.wild
		if r.at > r.from {
			together += 2 * one * before
		}
		before = one
	}
	c.err = f.widening * math.Sqrt(max(variance, squares+max(0, together)))
	c.err = min(c.err, max(widest*floats.Norm(times, 2), math.Abs(c.by)))
	return c
}

// difference is by how much an arm of a factor makes a step longer than another does.
func (e *Evidence) difference(factor, arm, than int) contrast {
	one := make([]int, len(e.Factors))
	one[factor] = arm
	times := e.indicators(one)
	one[factor] = than
	for i, is := range e.indicators(one) {
		times[i] -= is
	}
	return e.fit.contrast(times)
}

// cost is how many steps longer runs have taken than with NCCL's choice.
func (e *Evidence) cost(runs ...Run) contrast {
	times := e.indicators(make([]int, len(e.Factors)))
	for _, run := range runs {
		for _, b := range run.Blocks {
			for i, is := range e.indicators(b.Arms) {
				times[i] += is * float64(b.Steps+settled)
			}
		}
	}
	return e.fit.contrast(times)
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

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	return (v[len(v)/2] + v[(len(v)-1)/2]) / 2
}
