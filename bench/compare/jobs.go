package compare

import (
	"fmt"
	"math"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/bench/profile"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/plural"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
)

// Jobs compares profiles of jobs: one is one repetition. Instead of a geometric mean there is the sum of a step,
// where all profiles tell the calls of one.
func Jobs(before, after []*profile.Profile, opts Options) *Table {
	opts.jobs = &jobs{perStep: true}
	var samples [2][]bench.Sample
	for side, profiles := range [2][]*profile.Profile{before, after} {
		for i, p := range profiles {
			opts.jobs.add(side, p)
			for call, s := range opts.jobs.profiles[side][i].calls {
				if s.micros > 0 {
					samples[side] = append(samples[side], bench.Sample{
						Call: call.Call, Comm: call.Comm, Selection: bench.SelectionDefault,
						Config: nccl.Config{Cell: s.heaviest.Cell, Channels: s.heaviest.Channels}, Micros: s.micros,
						Source: fmt.Sprint("profile ", i),
					})
				}
			}
		}
	}
	return Two(samples[0], samples[1], opts)
}

// jobs are the profiles that a table is made of.
type jobs struct {
	profiles [2][]jobProfile
	perStep  bool // all tell the calls of a step
}

type jobProfile struct {
	calls map[profile.Shape]*jobSize
	total float64 // microseconds a step, over all calls of known time
}

// jobSize are the calls of one size.
type jobSize struct {
	calls    float64 // a step
	micros   float64 // of a call, on average over the configurations that run; 0: not known
	heaviest profile.Entry
	timed    float64 // calls that micros is of
}

func (j *jobs) add(side int, p *profile.Profile) {
	scale := p.Scale()
	j.perStep = j.perStep && scale.PerStep
	of := jobProfile{calls: map[profile.Shape]*jobSize{}}
	for _, e := range p.Entries {
		if e.Bytes == 0 {
			continue
		}
		key := profile.Shape{Call: e.Call, Comm: e.Comm}
		s := of.calls[key]
		if s == nil {
			s = &jobSize{}
			of.calls[key] = s
		}
		s.calls += e.StepCalls
		if e.Micros > 0 {
			n := scale.Count(e)
			if n == 0 {
				n = 1
			}
			if s.micros == 0 || n*e.Micros > scale.Count(s.heaviest)*s.heaviest.Micros {
				s.heaviest = e
			}
			s.micros = (s.micros*s.timed + e.Micros*n) / (s.timed + n)
			s.timed += n
			of.total += e.StepCalls * e.Micros
		}
	}
	j.profiles[side] = append(j.profiles[side], of)
}

// sum fills in the calls of a step, and makes the sum over the sizes of a group that all profiles have.
func (j *jobs) sum(g *Group, values []repetitions) {
	var parts []repetitions
	for i := range g.Rows {
		r := &g.Rows[i]
		var part repetitions
		for side, cell := range []*Measured{&r.Before, &r.After} {
			known := 0.0
			for _, p := range j.profiles[side] {
				s := p.calls[profile.Shape{Call: nccl.Call{Coll: g.Coll, Bytes: r.Bytes}, Comm: g.Comm}]
				if s == nil || s.micros == 0 {
					continue
				}
				cell.Calls, known = cell.Calls+s.calls, known+1
				part[side] = append(part[side], math.Log(s.calls)+values[i][side][len(part[side])])
			}
			cell.Calls /= known
		}
		if len(part[0]) == len(j.profiles[0]) && len(part[1]) == len(j.profiles[1]) {
			parts = append(parts, part)
		}
	}
	if j.perStep {
		g.Mean, g.step = g.sumOf(parts)
	}
}

// sumOf is the sum of parts of a step, each the logarithm of its microseconds in every profile.
func (g *Group) sumOf(parts []repetitions) (m Mean, all repetitions) {
	if len(parts) == 0 {
		return Mean{Estimate: unknown(math.NaN())}, all
	}
	for side := range all {
		for k := range parts[0][side] {
			sum := 0.0
			for _, p := range parts {
				sum += math.Exp(p[side][k])
			}
			all[side] = append(all[side], math.Log(sum))
		}
	}
	m.Before, m.After, m.Sizes = math.Exp(stats.Median(all[0])), math.Exp(stats.Median(all[1])), len(parts)
	m.Estimate = unknown(math.Log(m.After / m.Before))
	if min(len(all[0]), len(all[1])) >= 2 {
		m.test = g.testAtLeast(g.summaries(all), leastNoise*leastNoise)
	}
	return m, all
}

// overall is the sum over all groups.
func (j *jobs) overall(groups []Group) Mean {
	all, sizes := Group{Paired: true}, 0
	var parts []repetitions
	for i := range groups {
		all.Paired = all.Paired && groups[i].Paired
		if groups[i].Mean.Sizes > 0 {
			parts, sizes = append(parts, groups[i].step), sizes+groups[i].Mean.Sizes
		}
	}
	m, _ := all.sumOf(parts)
	m.Sizes = sizes
	return m
}

// remark says what the sum of a step is not.
func (j *jobs) remark(t *Table) {
	if unknown, all := t.Count(Unknown); unknown == all {
		t.note("differences without a test: of one profile on a side nothing tells what two runs of the same job " +
			"differ by (give several a side: before-*.csv -- after-*.csv)")
	}
	if !j.perStep {
		t.note("no sum of a step: not all profiles tell the calls of a step (tunefit import --steps)")
		return
	}
	differ, sizes := 0, 0
	for _, g := range t.Groups {
		for _, r := range g.Rows {
			sizes++
			differ += boolToInt(math.Abs(r.After.Calls-r.Before.Calls) > 0.001*r.Before.Calls)
		}
	}
	if differ > 0 {
		t.note("the calls of a step differ at %d of %s: its sum is of different work", differ, plural.Of(sizes, "size"))
	}
	for side, sum := range []float64{t.Overall.Before, t.Overall.After} {
		var totals []float64
		for _, p := range j.profiles[side] {
			totals = append(totals, p.total)
		}
		if share := sum / stats.Median(totals); share < 0.995 {
			t.note("%s, the sum is %s of the step's communication of known time; the rest is not on both sides",
				t.Sides[side].Name, percent(share))
		}
	}
}
