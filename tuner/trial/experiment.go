package trial

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/mat"
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
	column  []int // in the estimate, of each factor's first arm
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
	judgeEvery  = 10    // blocks
	firstJudged = 20    // blocks
	hurtJudged  = 5     // blocks, where one was surely bad
	worse       = 2.5   // standard errors behind the leader, by which an arm is dropped,
	toBeKnown   = 5     // blocks of NCCL's choice: without them nothing tells the level of the others
	toBeWorse   = 2     // after so many blocks: in one, two arms may look as bad for the sake of one
	little      = 0.002 // of a step: what arms of less difference are alike by, where that is sure
	notWorth    = 0.005 // of a step: what ends the experiment if open arms that are better by their error gain no more
	bad         = 0.05  // of a step: a block that is surely so much slower is left at once
	mostBlocks  = 2000

	// Time drifts from block to block: how much of a block's difference from the level is taken for that.
	wander        = 0.36
	leastVariance = 1e-8 // of a block's mean
	// The budget is a share of the steps of all blocks so far, or of so many blocks at the beginning.
	budgetBlocks = 400
)

// newExperiment prepares factors whose first arm is NCCL's choice.
func newExperiment(seed uint64, budget float64, factors []Factor) *experiment {
	e := &experiment{seed: seed, budget: budget, factors: factors}
	n := 0
	for _, f := range factors {
		e.column = append(e.column, n)
		n += len(f.Arms)
	}
	e.fit = newEstimate(n)
	for _, c := range e.column {
		e.fit.known.SetSym(c, c, 1/leastVariance) // NCCL's choice, against which all are
	}
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
		most := uint64(0)
		for k, a := range f.Arms {
			if a.Dropped != "" {
				continue
			}
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

// row is a block's indicators. NCCL's choice has none: all effects are against it.
func (e *experiment) row(arms []int) []float64 {
	x := make([]float64, e.fit.n)
	for i, k := range arms {
		if k > 0 {
			x[e.column[i]+k] = 1
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
	a, b, all := e.column[factor]+arm, e.column[factor]+than, e.fit.covariance
	return e.fit.effect.AtVec(a) - e.fit.effect.AtVec(b), math.Sqrt(max(all.At(a, a)+all.At(b, b)-2*all.At(a, b), 0))
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
		effects, variances, shared := map[int]float64{}, map[int]float64{}, math.Inf(1)
		for k := range f.Arms {
			a := &f.Arms[k]
			known := from.Factors[j].Arm(a.Config)
			if known == nil {
				continue
			}
			if *a = *known; a.Estimated() {
				c, choice := e.column[i]+k, float64(max(f.Arms[0].Blocks, 1))
				effects[c], variances[c] = math.Log1p(a.Effect), a.Error*a.Error
				shared = min(shared, variances[c]*float64(a.Blocks)/(float64(a.Blocks)+choice))
			}
		}
		e.fit.know(effects, variances, shared)
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
				most = max(most, err-by)
			}
		}
		sum += most
	}
	return sum
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
		effect += e.fit.effect.AtVec(e.column[i] + k)
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
// of its arms, plus noise. The level is the mean of the blocks before, the latest counting most. It is taken off from
// times and indicators alike.
func (e *experiment) estimate() {
	n := e.fit.n
	if n == 0 {
		return
	}
	var rows []*mat.VecDense
	var values, level []float64
	var kind uint64
	least := leastVariance
	for _, b := range e.blocks {
		least += b.variance / 4 / float64(len(e.blocks))
		z := append(e.row(b.arms), b.mean)
		if level == nil || b.kind != kind {
			level, kind = z, b.kind
			continue
		}
		for i := range z {
			z[i] -= level[i]
			level[i] += wander * z[i]
		}
		rows, values = append(rows, mat.NewVecDense(n, z[:n])), append(values, z[n])
	}
	e.fit.solve(rows, values, least)
	for i, f := range e.factors {
		for k := range f.Arms[1:] {
			a, c := &f.Arms[1+k], e.column[i]+1+k
			a.Effect, a.Error = math.Expm1(e.fit.effect.AtVec(c)), math.Sqrt(e.fit.covariance.At(c, c))
		}
	}
}
