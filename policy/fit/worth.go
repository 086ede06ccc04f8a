package fit

import (
	"cmp"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Worth is what decisions are worth to a job by what was measured, see NewWorth.
type Worth struct {
	profile.Scale
	Total float64 `json:"-"` // the job's communication, weighed by Scale: microseconds or bytes
	WorthSum
	Parts []WorthPart     `json:"parts"` // by collective and communicator, those that take longest first
	Left  []profile.Entry `json:"-"`     // calls that are not covered, the heaviest first
	// Uncounted are the calls without a weight: their size or their time is not known. Total does not count them.
	Uncounted float64 `json:"-"`
}

// WorthPart is about the calls of one collective on one communicator.
type WorthPart struct {
	Key
	WorthSum
}

// WorthSum is about calls that are covered: measurements tell what they take as the job runs now, with NCCL's choice
// and with what is decided. Times are microseconds of communication, of a step or of all that was recorded.
type WorthSum struct {
	Covered float64 `json:"covered_share"` // of Worth.Total
	CallTimes
	Once bool `json:"-"` // of some of the calls everything was measured once
}

// CallTimes are what the same calls take: as they run in the job, with NCCL's choice, with what is decided, and with
// the best that was measured.
type CallTimes struct {
	Now     float64 `json:"now_us"`
	Default float64 `json:"default_us"`
	Policy  float64 `json:"policy_us"`
	Best    float64 `json:"best_us"`
}

func (t *CallTimes) add(o CallTimes, times float64) {
	t.Now, t.Default, t.Policy, t.Best = t.Now+times*o.Now, t.Default+times*o.Default, t.Policy+times*o.Policy,
		t.Best+times*o.Best
}

// NewWorth takes the job's own time of a call, and from the measurements only the ratios to what the job runs. A call
// whose time is not known takes what was measured. Decisions are asked for at the job's sizes, times are compared at
// the nearest measured size, at most an octave away. Where nothing else is known, NCCL's choice is what runs.
//
// fitted is the report on the model that the decisions come from, which was fitted to the same set: the luck of its
// winners is taken off.
func NewWorth(job *profile.Profile, set *Set, decide DecideFunc, fitted *Report) *Worth {
	w := &Worth{Scale: job.Scale(), Total: job.Total(), Parts: []WorthPart{}} // not null in JSON
	for _, e := range job.Entries {
		weight := w.Of(e)
		if weight == 0 {
			w.Uncounted += w.Count(e)
			continue
		}
		key := Key{Coll: e.Coll, Comm: e.Comm}
		i := slices.IndexFunc(set.Groups, func(g *Group) bool { return g.Key == key })
		if i >= 0 {
			if t, ok := set.Groups[i].callTimes(e, decide, fitted.Groups[i].Genuine); ok {
				w.add(key, weight/w.Total, w.Count(e), t, set.Groups[i].NoisePairs == 0)
				continue
			}
		}
		w.Left = append(w.Left, e)
	}
	slices.SortStableFunc(w.Parts, func(a, b WorthPart) int { return cmp.Compare(b.Default, a.Default) })
	return w
}

func (w *Worth) add(key Key, share, calls float64, t CallTimes, once bool) {
	i := slices.IndexFunc(w.Parts, func(p WorthPart) bool { return p.Key == key })
	if i < 0 {
		i, w.Parts = len(w.Parts), append(w.Parts, WorthPart{Key: key})
	}
	for _, p := range []*WorthSum{&w.WorthSum, &w.Parts[i].WorthSum} {
		p.Covered += share
		p.CallTimes.add(t, calls)
		p.Once = p.Once || once
	}
}

// callTimes are those of one call of a job; false where too little was measured. genuine is nil where only the default
// was.
func (g *Group) callTimes(e profile.Entry, decide DecideFunc, genuine []float64) (t CallTimes, ok bool) {
	far := func(c Point) float64 { return math.Abs(log2(c.Bytes) - log2(e.Bytes)) }
	near := slices.DeleteFunc(slices.Clone(g.Default), func(c Point) bool { return far(c) > 1 })
	slices.SortStableFunc(near, func(a, b Point) int { return cmp.Compare(far(a), far(b)) })
	for _, d := range near {
		o := outcomesOf(g, []uint64{d.Bytes}, func(o *SizeOutcome, costs nccl.Costs) (nccl.Config, bool) {
			c, ok := decide(e.Comm, e.Call, costs)
			return c, ok && !g.isDefault(c, o.Bytes)
		})[0]
		if t = (CallTimes{g.runsNow(e, d), d.Micros, o.Policy, o.Best}); math.IsNaN(t.Now + t.Policy + t.Best) {
			continue
		}
		if genuine != nil {
			i := slices.IndexFunc(g.Default, func(c Point) bool { return c.Bytes == d.Bytes })
			t.Policy, t.Best = withoutLuck(t.Policy, d.Micros, genuine[i]), withoutLuck(t.Best, d.Micros, genuine[i])
		}
		one := e.Micros
		if one == 0 {
			one = t.Now * between(g.Default, e.Bytes) / d.Micros
		}
		var scaled CallTimes
		scaled.add(t, one/t.Now)
		return scaled, !math.IsNaN(one)
	}
	return t, false
}

// withoutLuck leaves of a gain over the default what is not the luck of a winner, see gain.
func withoutLuck(micros, byDefault, genuine float64) float64 {
	return micros + max(0, byDefault-micros)*(1-genuine)
}

// runsNow is what a job's call takes as it is made now, at the size of a default; NaN where that was not measured.
func (g *Group) runsNow(e profile.Entry, d Point) float64 {
	if e.DecidedBy == profile.ByNoTuner {
		return math.NaN()
	}
	ran := nccl.Config{Cell: e.Cell, Channels: e.Channels}
	nobodyKnows := e.Algo < 0 || e.DecidedBy == "" && d.Config.Algo < 0
	if e.DecidedBy == profile.ByNCCL || e.Channels == 0 && (nobodyKnows || ran.Cell == d.Config.Cell) {
		return d.Micros
	}
	return g.timeOf(ran, d.Bytes)
}

// between is what points take at a size, by the straight line of the logarithms; NaN before the first and after the
// last.
func between(points []Point, bytes uint64) float64 {
	i, exact := slices.BinarySearchFunc(points, bytes, func(c Point, b uint64) int { return cmp.Compare(c.Bytes, b) })
	switch {
	case exact:
		return points[i].Micros
	case i == 0 || i == len(points):
		return math.NaN()
	}
	below, above := points[i-1], points[i]
	share := (log2(bytes) - log2(below.Bytes)) / (log2(above.Bytes) - log2(below.Bytes))
	return below.Micros * math.Pow(above.Micros/below.Micros, share)
}

// DecideByRows asks the rows of a policy file, for NewWorth.
func DecideByRows(rows []Row) DecideFunc {
	return func(on nccl.Comm, call nccl.Call, costs nccl.Costs) (nccl.Config, bool) {
		for _, r := range rows {
			if r.Key == (Key{Coll: call.Coll, Comm: on}) && r.Bytes.Contains(call.Bytes) && costs.Offers(r.Cell) {
				return r.Config, true
			}
		}
		return nccl.Config{}, false
	}
}
