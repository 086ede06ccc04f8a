package trial

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
)

// An experiment finds what each arm of several factors does to a job's steps. In each block every factor takes
// one of its open arms, drawn by a hash. So a block tells something about all factors at once, and communicators
// with the same factors draw alike without a message. A comparison is an experiment of one factor with two arms, which
// take turns.
type experiment struct {
	*Evidence
	seed   uint64
	turns  bool    // the arms 0 and 1 of the only factor take turns
	budget float64 // the share of step time that trying may cost
	// Earlier jobs ended without a gain. That may have been noise: so all arms are tried some more.
	again bool

	open   []int     // the arms of the open block (nil: there is none),
	began  time.Time // when it began,
	values []float64 // the logarithms of its steps' seconds, and
	steps  float64   // how many they are
	run    *Run      // closed blocks

	judged int  // Blocks when arms were judged last
	hurt   bool // a block since then was surely bad
	// The budget is spent: until the leaders have earned some of it, nothing else is tried.
	resting bool
}

// Limits of an experiment.
const (
	minSteps    = 5     // of a block
	judgeEvery  = 10    // blocks
	firstJudged = 20    // blocks
	hurtJudged  = 5     // blocks, where one was surely bad
	worse       = 1.5   // standard errors behind the leader, by which an arm is dropped
	fewest      = 3     // blocks of an arm: with less, it is neither dropped nor left out of what may be gained
	toBeKnown   = 5     // blocks of NCCL's choice: without them nothing tells the level of the others
	little      = 0.002 // of a step: what arms of less difference are alike by, where that is sure
	notWorth    = 0.005 // of a step: what ends the experiment if no more is expected of open arms,
	littleMore  = 0.1   // or of what the leaders gain
	bad         = 0.05  // of a step: a block that is surely so much slower than NCCL's choice is left at once
	sure        = 4     // standard errors by which that is sure, or that a side of a comparison is slower
	mostBlocks  = 2000

	// The budget is a share of the steps of all blocks so far, or of so many blocks at the beginning.
	budgetBlocks = 400
	againShare   = 0.1 // of the budget, to try again what has gained nothing
)

// newExperiment begins one about the factors of evidence, whose first arm is NCCL's choice. What earlier runs tell is
// taken up. again says that these ended without a gain.
func newExperiment(e *Evidence, seed uint64, budget float64, again bool) *experiment {
	x := &experiment{Evidence: e, seed: seed, budget: budget, again: again}
	if again {
		x.budget *= againShare
	}
	x.newRun(e.Began)
	x.judge()
	return x
}

// newTurns begins a comparison.
func newTurns(seed uint64, began time.Time) *experiment {
	x := &experiment{Evidence: &Evidence{Factors: []Factor{{Arms: make([]Arm, 2)}}}, seed: seed, turns: true}
	x.newRun(began)
	return x
}

// rounds grows with what there is to judge: blocks, or pairs of them.
func (e *experiment) rounds() int {
	if e.turns {
		return e.pairs()
	}
	return e.Blocks
}

// newRun begins a run. Its blocks are compared among themselves.
func (e *experiment) newRun(began time.Time) {
	e.drop()
	e.Runs = append(e.Runs, Run{Comm: e.Key, Began: began})
	e.run = &e.Runs[len(e.Runs)-1]
}

// draw returns the arms of a block, by factor.
func (e *experiment) draw(block int64) []int {
	switch {
	case e.turns: // in pairs of blocks of random order, so that neither drift nor periodic work of the job favours one
		first := mix(e.seed+uint64(block>>1)) >> 63
		return []int{int(first) ^ int(block&1)}
	case e.resting:
		return e.leaders()
	}
	arms := make([]int, len(e.Factors))
	for i := range e.Factors {
		arms[i] = e.pick(i, block, -1)
		if arms[i] > 0 && block%2 == 0 && arms[i] == e.pick(i, max(0, block-1), -1) {
			arms[i] = e.pick(i, block, arms[i]) // so none stays for longer than two blocks
		}
	}
	return arms
}

// pick picks an arm of a factor, another one than but if there is any. Rounds of blocks have all arms, in random order,
// and NCCL's choice twice, since all effects are against it. In place of an arm that was dropped, the open one of the
// greatest hash comes: so communicators that have not dropped the same still draw alike where they can.
func (e *experiment) pick(factor int, block int64, but int) int {
	f := &e.Factors[factor]
	hash := func(arm int, of uint64) uint64 {
		h := fnv.New64a()
		fmt.Fprintf(h, "%s %d %d %s", f.Coll, f.Min, f.Max, f.Arms[arm].Config)
		return mix(mix(e.seed+of) + h.Sum64())
	}
	round := int64(len(f.Arms) + 1)
	order := map[uint64]int{mix(hash(0, uint64(block/round))): 0}
	for k := range f.Arms {
		order[hash(k, uint64(block/round))] = k
	}
	picked := order[slices.Sorted(maps.Keys(order))[block%round%int64(len(order))]]
	if picked != but && f.Arms[picked].Dropped == "" {
		return picked
	}
	if picked = max(but, 0); f.Arms[picked].Dropped != "" {
		picked = f.best()
	}
	most := uint64(0)
	for k, a := range f.Arms {
		if h := hash(k, uint64(block)); a.Dropped == "" && k != but && h >= most {
			picked, most = k, h
		}
	}
	return picked
}

// leaders returns the arm of each factor that is surely the best; 0, NCCL's choice, where none is.
func (e *Evidence) leaders() (arms []int) {
	for _, f := range e.Factors {
		arms = append(arms, f.Leader())
	}
	return arms
}

// add adds what these arms made: as much as so many steps, one of which took so long. A block ends with its arms. Where
// these stay, it is closed in time: it is to be about as long as was planned.
func (e *experiment) add(arms []int, began time.Time, took time.Duration, steps float64, length time.Duration) {
	if !slices.Equal(arms, e.open) || began.Sub(e.began) >= length*3/2 {
		e.close()
		e.open, e.began = arms, began
	}
	if took > 0 {
		e.values = append(e.values, math.Log(took.Seconds()))
		e.steps += steps
	}
}

// made adds steps to what these arms have made, whether or not they tell something.
func (e *experiment) made(arms []int, steps float64) {
	n := len(e.run.Blocks)
	if n == 0 || !slices.Equal(e.run.Blocks[n-1].Arms, arms) {
		e.run.Blocks = append(e.run.Blocks, Block{Arms: arms})
		n++
	}
	e.run.Blocks[n-1].Made += steps
}

// close keeps what the open block tells.
func (e *experiment) close() {
	if len(e.values) >= minSteps {
		at := len(e.run.Blocks) // where it is, if what its arms have made is known
		for at > 0 && e.run.Blocks[at-1].Steps == 0 && !slices.Equal(e.run.Blocks[at-1].Arms, e.open) {
			at--
		}
		if at--; at < 0 || e.run.Blocks[at].Steps > 0 {
			at = len(e.run.Blocks)
			e.run.Blocks = append(e.run.Blocks, Block{Arms: e.open})
		}
		l, b := middle(e.values), &e.run.Blocks[at]
		b.Mean, b.Variance, b.Steps = l.Mean, l.Variance, max(1, int(math.Round(e.steps)))
		e.count(*b)
	}
	e.drop()
}

// middle returns the mean of the middle half of values. A checkpoint in some step does not move that mean.
func middle(values []float64) stats.Location { return stats.Trimmed(values, len(values)/4) }

// forget forgets all blocks of the run.
func (e *experiment) forget() {
	e.drop()
	for i := range e.run.Blocks {
		e.run.Blocks[i].Steps = 0
	}
	e.judged = 0
	e.Estimate()
}

// drop forgets the steps of the open block.
func (e *experiment) drop() { e.open, e.values, e.steps = nil, nil, 0 }

// due reports that there are enough new blocks to judge arms by.
func (e *experiment) due() bool {
	return e.Blocks >= max(firstJudged, e.judged+judgeEvery) || e.hurt && e.Blocks >= hurtJudged
}

// judge derives what all blocks so far tell.
func (e *experiment) judge() {
	e.Estimate()
	if e.tooEarly() && e.again {
		for i := range e.Factors {
			e.Factors[i].reopen()
		}
	}
	e.judged, e.hurt = e.Blocks, false
	if lost, made := e.cost(*e.run); made > 0 {
		e.resting = lost.least-lost.err > e.budget*made*max(1, budgetBlocks/float64(e.run.told()))
	}
}

// tooEarly reports that too little is known for an end.
func (e *experiment) tooEarly() bool {
	return e.Blocks < firstJudged || e.again && e.run.told() < firstJudged
}

// surelyBad reports that the open block is much slower than NCCL's choice, both as the job's steps were before it began
// to learn and as the latest blocks have it.
func (e *experiment) surelyBad() bool {
	const latest = 8
	if len(e.values) < minSteps || e.turns {
		return false
	}
	var levels []float64
	for _, b := range slices.Backward(e.run.Blocks) {
		if b.Steps > 0 && len(levels) < latest {
			levels = append(levels, b.Mean-math.Log(e.factor(b.Arms)))
		}
	}
	l := middle(e.values)
	return len(levels) > 0 && l.Mean-max(median(levels), math.Log(e.StepSeconds)) > bad+sure*math.Sqrt(l.Variance)
}

// gainable is how much of a step may still be gained: by how much open arms are expected to be better than the leaders,
// where they are better (J. Mockus: expected improvement, 1978).
func (e *experiment) gainable() (sum float64) {
	for i, leader := range e.leaders() {
		if e.Factors[i].Settled {
			continue
		}
		most := 0.0
		for k, a := range e.Factors[i].Arms {
			if a.Dropped == "" && k != leader {
				behind := e.difference(i, k, leader)
				z := -behind.least / behind.err
				density := math.Exp(-z*z/2) / math.Sqrt(2*math.Pi)
				most = max(most, behind.err*(z*math.Erfc(-z/math.Sqrt2)/2+density))
				if a.Blocks < fewest {
					most = max(most, notWorth)
				}
			}
		}
		sum += most
	}
	return sum
}

// over says why the experiment has ended; "" if it has not.
func (e *experiment) over() string {
	open := slices.ContainsFunc(e.Factors, func(f Factor) bool { return !f.Settled })
	switch {
	case e.tooEarly():
	case !open:
		return "all are settled"
	case e.gainable() < max(notWorth, littleMore*(1-e.factor(e.leaders()))):
		return "little is left to gain"
	case e.resting && slices.Max(e.leaders()) == 0:
		return "the budget is spent"
	case e.run.told() >= mostBlocks:
		return "enough was tried"
	}
	return ""
}
