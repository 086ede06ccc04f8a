package report

import (
	"math"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
)

// measured makes a decision for each gain: of a row, or of the fastest measured where
// the policy does not act.
func measured(acts func(i int) bool, gains ...float64) (all []decision) {
	for i, g := range gains {
		d := decision{bytes: 4096 << i, byNCCL: 100, us: 100 * (1 - g), saved: math.NaN(), toSave: g}
		if math.IsNaN(g) {
			d.byNCCL = g
		}
		if acts(i) {
			d.row, d.saved = &nccl.Config{}, g
		}
		all = append(all, d)
	}
	return all
}

func TestVerdict(t *testing.T) {
	key := fit.Key{Coll: nccl.CollAllReduce, Comm: nccl.Comm{Nodes: 1, Ranks: 8}}
	whole := &fit.Group{Key: key, Default: make([]fit.Point, 1), NoisePairs: 1}
	once := &fit.Group{Key: key, Default: make([]fit.Point, 1)}
	unseen := func(decided, harm int, worst, versus float64) *fit.Validation {
		return &fit.Validation{Decided: decided, Harm: harm, WorstHarm: worst,
			VersusDefault: fit.Score{Decisions: 8, Mean: versus}}
	}
	good := unseen(8, 0, 1, .8)
	always, never := func(int) bool { return true }, func(int) bool { return false }
	unknown := math.NaN()
	for name, c := range map[string]struct {
		report    fit.GroupReport
		decisions []decision
		want      string
	}{
		"gain at one end": {fit.GroupReport{Group: whole, Validation: good},
			measured(func(i int) bool { return i < 3 }, .13, .22, .32, 0, .004),
			"use it: at the sizes measured, 22 % less time at 4KiB - 16KiB (13 to 32 %); no gain at 32KiB " +
				"- 64KiB"},
		"two levels": {fit.GroupReport{Group: whole, Validation: good},
			measured(always, .30, .32, .02, .03, .02),
			"use it: at the sizes measured, 31 % less time at 4KiB - 8KiB, 2.3 % at 16KiB - 64KiB"},
		"uncertain elsewhere": {fit.GroupReport{Group: whole, Validation: good},
			measured(func(i int) bool { return i == 1 }, .02, .05, .015),
			"use it: at the sizes measured, 5.0 % less time at 8KiB; perhaps 2.0 % at 4KiB and less at 1 more, not " +
				"for sure"},
		"hidden among others": {fit.GroupReport{Group: whole, Validation: good},
			measured(func(i int) bool { return i == 1 }, 0, .05, .004, .18, 0),
			"use it: at the sizes measured, 5.0 % less time at 8KiB; perhaps 18 % at 32KiB, not for sure"},
		"many ranges": {fit.GroupReport{Group: whole, Validation: good},
			measured(func(i int) bool { return i%2 == 0 }, .2, 0, .3, 0, .1, 0, .05),
			"use it: at the sizes measured, 20 % less time at 4KiB, 30 % at 16KiB, 10 % at 64KiB, less at 1 more; " +
				"no gain elsewhere"},
		"default in places": {fit.GroupReport{Group: whole, Validation: good}, measured(always, .2, unknown, .2),
			"use it: at the sizes measured, 20 % less time at 4KiB, 20 % at 16KiB"},
		"harm": {fit.GroupReport{Group: whole, Validation: unseen(8, 2, 1.12, .9)}, measured(always, .2),
			"use it with care: at the sizes measured, 20 % less time at 4KiB; at sizes left out of the fit, 2 of 8 " +
				"decisions took longer than NCCL's, at worst 1.12 times as long"},
		"less between": {fit.GroupReport{Group: whole, Validation: unseen(1, 0, 1, .99)}, measured(always, .2),
			"use it: at the sizes measured, 20 % less time at 4KiB; on average over all sizes 20 %, over those left " +
				"out of the fit only 1.0 %"},
		"luck elsewhere": {fit.GroupReport{Group: whole, Validation: unseen(1, 0, 1, 1)}, measured(always, .2),
			"use it: at the sizes measured, 20 % less time at 4KiB; on average over all sizes 20 %, over those left " +
				"out of the fit only 0.0 %"},
		"one run each": {fit.GroupReport{Group: once, Validation: unseen(1, 0, 1, 1)},
			measured(func(i int) bool { return i%2 == 0 }, .2, 0, .3, 0, .1, 0, .05),
			"use it with care: one run each: not sure; faster as measured at 4KiB, 16KiB, 64KiB, and in 1 range more; " +
				"no gain elsewhere"},
		"one run each, nothing": {fit.GroupReport{Group: once, Validation: good}, measured(never, .002, 0),
			"leave it: nothing found that is faster than NCCL's default"},
		"not tried": {fit.GroupReport{Group: whole}, measured(always, .2),
			"use it: at the sizes measured, 20 % less time at 4KiB; not tried on sizes left out of the fit"},
		"nothing found": {fit.GroupReport{Group: whole, Validation: good}, measured(never, .002, 0),
			"leave it: nothing found that is faster than NCCL's default"},
		"rows of nothing": {fit.GroupReport{Group: whole, Validation: good}, measured(always, .004, .001),
			"leave it: nothing found that is faster than NCCL's default"},
		"nothing, perhaps": {fit.GroupReport{Group: whole, Validation: good},
			measured(func(i int) bool { return i > 0 }, .18, .004),
			"leave it: nothing is faster than NCCL's default for sure; perhaps 18 % at 4KiB, not for sure"},
		"slower": {fit.GroupReport{Group: whole, Validation: good}, measured(always, -.2, -.1),
			"leave it: nothing found that is faster than NCCL's default"},
		"nothing is sure": {fit.GroupReport{Group: whole, Validation: good}, measured(never, .02, 0),
			"leave it: nothing is faster than NCCL's default for sure; perhaps 2.0 % at 4KiB, not for sure"},
		"no default": {fit.GroupReport{Group: &fit.Group{Key: key}}, measured(never, unknown, unknown),
			"cannot say: the default was not measured"},
		"acts all the same": {fit.GroupReport{Group: &fit.Group{Key: key}},
			measured(func(i int) bool { return i < 2 }, unknown, unknown),
			"cannot say: the default was not measured where the policy is active"},
		"other sizes": {fit.GroupReport{Group: whole}, measured(never, unknown, unknown),
			"cannot say: the default and other configurations were measured at different sizes"},
		"default only": {fit.GroupReport{Group: whole, DefaultOnly: true}, measured(never, unknown),
			"cannot say: nothing but the default was measured"},
	} {
		v := newRecommendation(&c.report, c.decisions)
		if promised := !v.Gain.IsZero(); promised && c.report.Group == once {
			t.Errorf("%s: a gain of %v", name, v.Gain)
		}
		if v.String() != c.want {
			t.Errorf("%s: got\n%s, want\n%s", name, v, c.want)
		}
		sizes := 0
		for _, s := range v.Spans {
			sizes += s.Sizes
		}
		if sizes != len(c.decisions) {
			t.Errorf("%s: %d sizes in %+v", name, sizes, v.Spans)
		}
	}
}

// A recommendation quotes gains without the winner's luck, and bandwidths as nccl-tests does.
func TestRecommendationIsHonest(t *testing.T) {
	in := fitted(t, "../../../docs/measured/mi355x-allreduce.csv")
	for _, v := range Recommendations(in) {
		for _, s := range v.Spans {
			if !s.Known {
				t.Errorf("%s: %s is not known", v.Group(), s.Name())
			}
		}
	}
	r := &in.Report.Groups[0]
	factor := r.Group.Coll.BusFactor(float64(r.Group.Ranks))
	spans := spansOf(r.Group.Key, newDecisions(r, in.Model, in.Rows))
	last := spans[len(spans)-1]
	d := r.Group.Default[len(r.Group.Default)-1]
	if want := float64(d.Bytes) / d.Micros / 1000 * factor; last.To != d.Bytes || math.Abs(last.OwnBus-want) > 1e-9 ||
		factor != 1.75 {
		t.Errorf("%+v, want %g GB/s", last, want)
	}
	least := 1.0 // share that is no luck
	for i := range in.Report.Groups {
		r := &in.Report.Groups[i]
		for _, d := range newDecisions(r, in.Model, in.Rows) {
			if d.row == nil {
				continue
			}
			if d.saved > d.gain || d.saved < 0.9*d.gain && d.gain > 0.1 {
				t.Errorf("%d: measured %g, without luck %g", d.bytes, d.gain, d.saved)
			}
			least = min(least, d.saved/d.gain)
		}
	}
	if least > 0.95 {
		t.Errorf("no gain is luck, of the smallest %g is not", least)
	}
}
