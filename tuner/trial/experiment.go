package trial

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"time"
)

// An experiment finds what each arm of several factors does to a job's steps. In each block every factor takes
// one of its open arms, drawn by a hash. So a block tells something about all factors at once, and communicators
// with the same factors draw alike without a message.
type experiment struct {
	seed    uint64
	budget  float64 // the share of step time that trying may cost
	factors []Factor

	open   tried     // the block under way
	values []float64 // logarithms of seconds of its steps, and
	blocks []tried   // closed blocks, in order
	steps  int       // in closed blocks
	judged int       // len(blocks) when arms were judged last
	hurt   bool      // a block since then was surely bad
	// The budget is spent: until the leaders have earned some of it, nothing else is tried.
	resting bool
	column  [][]int // of an arm in estimate; -1 for NCCL's choice
	// What earlier jobs have tried.
	earlier struct {
		blocks, steps int
		lost          float64
	}
	fit estimate
}

// tried is what a block tells.
type tried struct {
	block          int64
	kind           uint64 // of its steps; steps of two kinds are never compared
	arms           []int  // by factor
	mean, variance float64
	steps          int
}

// Limits of an experiment.
const (
	mostOpen    = 6     // arms of a factor; the others wait until one of these is dropped
	judgeEvery  = 10    // blocks
	firstJudged = 20    // blocks
	hurtJudged  = 5     // blocks, where one was surely bad
	worse       = 2.5   // standard errors behind the leader, by which an arm is dropped,
	toBeKnown   = 5     // blocks of NCCL's choice: without them nothing tells the level of the others
	toBeWorse   = 2     // after so many blocks: in one, two arms may look as bad for the sake of one
	little      = 0.002 // of a step: what arms of less difference are alike by, where that is sure
	notWorth    = 0.001 // of a step: what ends the experiment if no more can be gained
	bad         = 0.05  // of a step: a block that is surely so much slower is left at once
	mostBlocks  = 2000

	// Time drifts from block to block. wander is the variance of that, in variances of a block's mean.
	wander = 0.2
	// The budget is a share of the steps of all blocks so far, or of so many blocks at the beginning.
	budgetBlocks = 400
)

// newExperiment prepares factors whose first arm is NCCL's choice.
func newExperiment(seed uint64, budget float64, factors []Factor) *experiment {
	e := &experiment{seed: seed, budget: budget, factors: factors}
	n := 0
	for _, f := range factors {
		columns := make([]int, len(f.Arms))
		columns[0] = -1
		for i := 1; i < len(columns); i++ {
			columns[i] = n
			n++
		}
		e.column = append(e.column, columns)
	}
	e.fit = newEstimate(n)
	return e
}

// draw returns the arms of a block, by factor. Of the open arms the one of the greatest hash is drawn, so that
// communicators that have not dropped the same arms still draw alike where they can.
func (e *experiment) draw(block int64) []int {
	if e.resting {
		return e.leaders()
	}
	arms := make([]int, len(e.factors))
	for i, f := range e.factors {
		most, open := uint64(0), 0
		for k, a := range f.Arms {
			if a.Dropped != "" || open == mostOpen {
				continue
			}
			open++
			h := fnv.New64a()
			fmt.Fprintf(h, "%s %d %d %s", f.Coll, f.Min, f.Max, a.Config)
			if hash := mix(mix(e.seed+uint64(block)) + h.Sum64()); hash >= most {
				arms[i], most = k, hash
			}
		}
	}
	return arms
}

// leaders returns the arm of each factor that is surely the best; 0, NCCL's choice, where none is.
func (e *experiment) leaders() []int {
	arms := make([]int, len(e.factors))
	for i := range e.factors {
		arms[i] = e.factors[i].Leader()
	}
	return arms
}

// add adds a step of a block that was made by these arms.
func (e *experiment) add(block int64, kind uint64, arms []int, took time.Duration) {
	e.past(block)
	if e.open.arms == nil {
		e.open = tried{block: block, kind: kind, arms: arms}
	}
	if took > 0 && kind == e.open.kind && slices.Equal(arms, e.open.arms) {
		e.values = append(e.values, math.Log(took.Seconds()))
	}
}

// past closes the open block if it lies before this one.
func (e *experiment) past(block int64) {
	if block == e.open.block {
		return
	}
	b, values := e.open, e.values
	e.open, e.values = tried{block: block}, nil
	if b.arms == nil || len(values) < minSteps {
		return
	}
	b.mean, b.variance = middle(values)
	b.steps = len(values)
	e.steps += b.steps
	e.blocks = append(e.blocks, b)
	for i, k := range b.arms {
		e.factors[i].Arms[k].Blocks++
	}
}

// row is a block's indicators.
func (e *experiment) row(arms []int) []float64 {
	x := make([]float64, len(e.fit.effect))
	for i, k := range arms {
		if c := e.column[i][k]; c >= 0 {
			x[c] = 1
		}
	}
	return x
}

// judge estimates effects after some blocks, and drops arms.
func (e *experiment) judge() {
	if len(e.blocks) < max(firstJudged, e.judged+judgeEvery) && !(e.hurt && len(e.blocks) >= hurtJudged) {
		return
	}
	e.judged, e.hurt = len(e.blocks), false
	e.estimate()
	n := float64(len(e.blocks) + e.earlier.blocks)
	e.resting = e.lost() > e.budget*float64(e.steps+e.earlier.steps)*max(1, budgetBlocks/n)
	for i := range e.factors {
		f := &e.factors[i]
		leader := f.best()
		for k := range f.Arms {
			a := &f.Arms[k]
			if a.Dropped != "" || k == leader {
				continue
			}
			behind, err := e.difference(i, k, leader)
			switch {
			case k == 0 && leader != f.Leader(): // see Leader
			case behind > worse*err && a.Blocks >= toBeWorse:
				a.Dropped = "worse"
			case behind+Surely*err < little && k > 0:
				a.Dropped = "alike"
			case behind+Surely*err < little && leader > 0:
				f.Arms[leader].Dropped = "alike"
				leader = k
			}
		}
		f.Settle()
	}
}

// difference is by how much an arm is slower than another one, and the standard error of that.
func (e *experiment) difference(factor, arm, than int) (by, err float64) {
	a, b := e.column[factor][arm], e.column[factor][than]
	var variance float64
	if a >= 0 {
		by += e.fit.effect[a]
		variance += e.fit.covariance.At(a, a)
	}
	if b >= 0 {
		by -= e.fit.effect[b]
		variance += e.fit.covariance.At(b, b)
	}
	if a >= 0 && b >= 0 {
		variance -= 2 * e.fit.covariance.At(a, b)
	}
	return by, math.Sqrt(max(variance, 0))
}

// surelyBad reports that the open block is much slower than the fastest of the latest blocks.
func (e *experiment) surelyBad() bool {
	const latest = 8
	if len(e.values) < minSteps {
		return false
	}
	mean, variance := middle(slices.Clone(e.values))
	for _, b := range e.blocks[max(0, len(e.blocks)-latest):] {
		if b.kind == e.open.kind && mean-b.mean > bad+sure*math.Sqrt(variance+b.variance) {
			return true
		}
	}
	return false
}

// goOn takes over what an earlier job knows of the same factors and arms. It returns false if none are the same.
func (e *experiment) goOn(from Evidence) (same bool) {
	for i := range e.factors {
		f := &e.factors[i]
		j := slices.IndexFunc(from.Factors, f.Same)
		if j < 0 {
			continue
		}
		same = true
		for k := range f.Arms {
			a := &f.Arms[k]
			known := from.Factors[j].Arm(a.Config)
			if known == nil {
				continue
			}
			*a = *known
			if c := e.column[i][k]; c >= 0 && a.Error > 0 {
				e.fit.known[c] = knowledge{math.Log1p(a.Effect), a.Error * a.Error}
			}
		}
		f.Settle()
	}
	if same {
		e.earlier.blocks, e.earlier.steps, e.earlier.lost = from.Blocks, from.Steps, from.LostSteps
		e.estimate()
	}
	return same
}

// gainable is how much of a step could still be gained: what open arms may be better than the leaders by.
func (e *experiment) gainable() (sum float64) {
	leaders := e.leaders()
	for i, f := range e.factors {
		if f.Settled {
			continue
		}
		most := 0.0
		for k, a := range f.Arms {
			if a.Dropped == "" && k != leaders[i] {
				by, err := e.difference(i, k, leaders[i])
				most = max(most, expectedGain(by, err))
			}
		}
		sum += most
	}
	return sum
}

// expectedGain is the mean of what a normal value lies below 0 by.
func expectedGain(mean, err float64) float64 {
	if err == 0 {
		return max(-mean, 0)
	}
	z := mean / err
	return err*math.Exp(-z*z/2)/math.Sqrt(2*math.Pi) - mean*math.Erfc(z/math.Sqrt2)/2
}

// lost is how many steps trying has cost so far.
func (e *experiment) lost() (steps float64) {
	for _, b := range e.blocks {
		steps += float64(b.steps) * math.Expm1(e.predicted(b.arms))
	}
	return steps + e.earlier.lost
}

func (e *experiment) predicted(arms []int) (effect float64) {
	for i, k := range arms {
		if c := e.column[i][k]; c >= 0 {
			effect += e.fit.effect[c]
		}
	}
	return effect
}

// over says why the experiment has ended; "" if it has not.
func (e *experiment) over() string {
	open := slices.ContainsFunc(e.factors, func(f Factor) bool { return !f.Settled })
	switch {
	case !open:
		return "settled"
	case e.judged == 0 && e.earlier.blocks == 0:
	case e.gainable() < notWorth:
		return "little left"
	case e.resting && !slices.ContainsFunc(e.leaders(), func(k int) bool { return k > 0 }):
		return "budget"
	case len(e.blocks) >= mostBlocks:
		return "long enough"
	}
	return ""
}

// estimate fits effects to all blocks. The logarithm of a block's step time is a level that wanders, plus the effects
// of its arms, plus noise. A filter takes off the level that the blocks before tell, from times and indicators alike.
// What is left are differences from the blocks before with independent errors, which least squares fit.
func (e *experiment) estimate() {
	if len(e.blocks) == 0 {
		e.fit.solve(nil, nil)
		return
	}
	noise := e.noise()
	var rows [][]float64
	var values []float64
	var level []float64
	var certainty float64
	var before tried
	for _, b := range e.blocks {
		z := append(e.row(b.arms), b.mean)
		variance := noise.of(b)
		if level == nil || b.kind != before.kind {
			level, certainty = z, variance
		} else {
			certainty += wander * noise.block * min(max(float64(b.block-before.block), 1), 20)
			f := certainty + variance
			k := certainty / f
			v := make([]float64, len(z))
			next := make([]float64, len(z))
			for i := range z {
				v[i] = (z[i] - level[i]) / math.Sqrt(f)
				next[i] = level[i] + k*(z[i]-level[i])
			}
			level, certainty = next, certainty*(1-k)
			rows, values = append(rows, v[:len(v)-1]), append(values, v[len(v)-1])
		}
		before = b
	}
	e.fit.solve(rows, values)
	for i := range e.factors {
		for k := range e.factors[i].Arms {
			if c := e.column[i][k]; c >= 0 {
				a := &e.factors[i].Arms[k]
				a.Effect, a.Error = math.Expm1(e.fit.effect[c]), math.Sqrt(e.fit.covariance.At(c, c))
			}
		}
	}
}

// spread is the noise of blocks.
type spread struct {
	step, block float64 // variance of a step's mean times the number of steps; of a block's mean, in the mean
}

func (s spread) of(b tried) float64 { return s.step / float64(b.steps) }

func (e *experiment) noise() (s spread) {
	var all []float64
	steps := 0.0
	for _, b := range e.blocks {
		all = append(all, b.variance*float64(b.steps))
		steps += float64(b.steps) / float64(len(e.blocks))
	}
	slices.Sort(all)
	s.step = max(all[len(all)/2], 1e-12)
	s.block = s.step / steps
	return s
}
