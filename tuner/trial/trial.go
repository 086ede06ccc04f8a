package trial

import (
	"fmt"
	"math"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
)

// A trial collects the times of steps and judges them after each pair. The zero value is ready.
type trial struct {
	pair  int64
	steps [2][]float64 // of the open pair: logarithms of seconds
	first Side         // of the open pair

	pairs  []difference // of closed pairs
	counts int          // steps in them
	missed int          // pairs in a row that had too few steps of a side
}

// A difference is what the steps of a pair tell.
type difference struct {
	value, noise float64 // A less B, and the variance that follows from the spread of steps
	// drift is what the value owes to drift if that goes on between the blocks as within them, with its variance.
	drift, driftNoise float64
}

// Limits of a trial.
const (
	minSteps  = 5     // of a side in a pair
	minPairs  = 6     // before the interval is believed
	maxPairs  = 100   // then the trial ends with what it has
	maxMissed = 10    // pairs in a row without a result: sides do not come into force
	precise   = 0.005 // half the width of the interval, relative, that ends the trial
	surePairs = 2     // the fewest that end the trial early
	large     = 0.02  // because a side is so much slower,
	sure      = 4     // by so many standard errors, and more where few pairs tell these
	certain   = 3     // standard errors by which drift within blocks must exceed its noise to be taken off

	// withinQuantile is the 97.5 % quantile of a mean over steps, of which a block has few: a
	// little above the normal distribution's 1.96.
	withinQuantile = 2
)

// add adds a step of a pair that was made by one side. Pairs come in order.
func (t *trial) add(pair int64, side Side, took time.Duration) {
	t.past(pair)
	if took > 0 {
		if len(t.steps[A])+len(t.steps[B]) == 0 {
			t.first = side
		}
		t.steps[side] = append(t.steps[side], math.Log(took.Seconds()))
	}
}

// past closes the open pair if it lies before this one. If there are no steps, only the time shows that a
// pair is over.
func (t *trial) past(pair int64) {
	if pair != t.pair {
		t.close()
		t.pair = pair
	}
}

// drop forgets the steps of the open pair, because the next ones are of another kind.
func (t *trial) drop() { t.steps = [2][]float64{} }

func (t *trial) close() {
	a, b := t.steps[A], t.steps[B]
	t.drop()
	if t.pair == 0 {
		return
	}
	if len(a) < minSteps || len(b) < minSteps {
		t.missed++
		return
	}
	t.missed = 0
	t.counts += len(a) + len(b)
	value := stats.Sum(middle(a), middle(b).Times(-1))
	drift := stats.Sum(rise(a), rise(b))
	d := difference{value.Mean, value.Variance, drift.Mean, drift.Variance}
	if t.first == A {
		d.drift = -d.drift
	}
	t.pairs = append(t.pairs, d)
}

// rise returns by how much the second half of values lies above the first.
func rise(values []float64) stats.Location {
	half := len(values) / 2
	return stats.Sum(middle(values[len(values)-half:]), middle(values[:half]).Times(-1))
}

// driftShare returns the share of the drift within blocks to subtract from the differences. It is 0 unless
// the drift is certain. Otherwise it is 1 less the part that noise adds to the drift.
func (t *trial) driftShare() float64 {
	var squares, noise float64
	for _, d := range t.pairs {
		squares += d.drift * d.drift
		noise += d.driftNoise
	}
	if squares <= noise*(1+certain*math.Sqrt(2/float64(len(t.pairs)))) {
		return 0
	}
	return 1 - noise/squares
}

// middle returns the mean of the middle half of values. A checkpoint in some step does not move that mean.
func middle(values []float64) stats.Location { return stats.Trimmed(values, len(values)/4) }

// State says whether a trial goes on, or why it has ended.
type State string

// The states of a trial.
const (
	Running  State = "running"
	Precise  State = "precise"  // the interval is narrow enough
	Clear    State = "clear"    // one side is surely slower, so the job should stop trying it
	Budget   State = "budget"   // it has lasted long enough
	Edited   State = "edited"   // one side was given up by an edit
	Followed State = "followed" // another communicator has ended its trial; this one alone would find less
	NoChange State = "nochange" // sides do not come into force, or steps cannot be told
)

// Result is what a trial knows by now. Step times are relative: -0.03 means that steps of A take 3 %
// less time than those of B.
type Result struct {
	State State   `json:"state"`
	Pairs int     `json:"pairs"`
	Steps int     `json:"steps"` // in these pairs
	Mean  float64 `json:"mean"`  // of A relative to B; 0 without pairs
	Low   float64 `json:"low"`   // of the 95 % interval
	High  float64 `json:"high"`
}

// Faster and Slower report that A's steps are shorter than B's, or longer, by an interval without 0.
func (r Result) Faster() bool { return r.Known() && r.High < 0 }

// Slower is Faster's opposite; both may be false.
func (r Result) Slower() bool { return r.Known() && r.Low > 0 }

// Known reports that there are enough pairs for an interval.
func (r Result) Known() bool {
	return r.State == Clear || r.Pairs >= minPairs && r.State != Followed
}

func (r Result) String() string {
	if !r.Known() {
		return fmt.Sprintf("not known yet, %d of at least %d pairs of blocks", r.Pairs, minPairs)
	}
	return fmt.Sprintf("step time %+.1f %% (%+.1f .. %+.1f)", 100*r.Mean, 100*r.Low, 100*r.High)
}

// result judges the closed pairs.
func (t *trial) result() Result {
	n := len(t.pairs)
	r := Result{State: Running, Pairs: n, Steps: t.counts}
	if n == 0 {
		if t.missed >= maxMissed {
			r.State = NoChange
		}
		return r
	}
	values, within := make([]float64, n), 0.0
	share := t.driftShare()
	for i, d := range t.pairs {
		values[i] = d.value - share*d.drift
		within += (d.noise + share*share*d.driftNoise) / float64(n*n)
	}
	all := stats.Trimmed(values, 0)
	// With few pairs the spread of steps tells more than that of pairs. Many pairs also show what steps do not.
	half := withinQuantile * math.Sqrt(within)
	clearly := sure * math.Sqrt(within)
	switch {
	case n > surePairs:
		between := all.Half()
		half, clearly = max(half, between), max(clearly, sure/2*between)
	case n > 1: // two pairs hardly tell how pairs differ
		half = max(half, 1.5*sure*math.Sqrt(all.Variance))
	}
	mean := all.Mean
	r.Mean, r.Low, r.High = math.Expm1(mean), math.Expm1(mean-half), math.Expm1(mean+half)
	switch {
	case n >= minPairs && half <= precise:
		r.State = Precise
	case n >= surePairs && math.Abs(mean) > max(clearly, half, large):
		r.State = Clear
	case n >= maxPairs:
		r.State = Budget
	case t.missed >= maxMissed:
		r.State = NoChange
	}
	return r
}
