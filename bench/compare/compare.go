package compare

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/stats"
)

// Options say what is compared. The zero value compares what ran.
type Options struct {
	Names [2]string // of the sides; empty: before, after
	// Threshold is what a slowdown must be proven to exceed to be counted by Table.Slower.
	Threshold float64
	// Config compares one forced configuration; without channels, one whose channels NCCL chose. nil compares what ran.
	// Where a side has several configurations at a size, that is NCCL's choice.
	Config *nccl.Config
	// AllVariants compares every data type, reduction and placement instead of the one with most sizes.
	AllVariants bool
	// Alternating says that the runs of both sides were made in turns, in the order of the samples: the first of
	// before, the first of after, the second of before ... It is not needed where logs hold the time of each start.
	Alternating bool
	// InStarts says that both sides were measured in passes of the same starts, in turns. Then each start is a pair,
	// and what a whole start was slower by is the same for both sides.
	InStarts bool
}

// Two compares samples, which are in the order of their runs. Table.LeftOut has what cannot be compared. If the sides
// have nothing in common, the table has no sections.
func Two(before, after []bench.Sample, opts Options) *Table {
	for i, name := range []string{"before", "after"} {
		opts.Names[i] = cmp.Or(opts.Names[i], name)
	}
	p := &pool{readings: map[bench.Series]map[uint64][]reading{}, measured: map[bench.Series][2]bool{},
		runs: [2]map[run]int{{}, {}}, leftOut: map[LeftOut]int{}, names: opts.Names}
	for side, samples := range [2][]bench.Sample{before, after} {
		for i := range samples {
			p.add(side, &samples[i])
		}
	}
	for _, key := range p.series() {
		p.choose(key, opts)
		p.common(key)
	}
	if !opts.AllVariants {
		p.mainVariants()
	}
	t := &Table{Threshold: opts.Threshold, LeftOut: p.left(), Common: []string{}, Differences: []Difference{},
		Sections: []Section{}, Notes: []string{}} // in JSON they are [], not null
	t.describe(p)
	var all []*Estimate
	for _, key := range p.series() {
		t.Sections = append(t.Sections, p.section(key, opts))
	}
	for i := range t.Sections {
		g := &t.Sections[i]
		for j := range g.Rows {
			all = append(all, &g.Rows[j].Estimate)
		}
		all = append(all, &g.Mean.Estimate)
	}
	t.Overall = overall(t.Sections)
	if len(t.Sections) > 1 {
		all = append(all, &t.Overall.Estimate)
	}
	t.Tested = judge(all)
	if len(t.Sections) == 1 {
		t.Overall = t.Sections[0].Mean
	}
	t.remark(p, opts)
	return t
}

// repetitions are the values of both sides at a size, in ln(us).
type repetitions [2][]float64

// section compares the sizes of a series.
func (p *pool) section(key bench.Series, opts Options) Section {
	g := Section{Series: key, Unsteady: []CollapsedRun{}}
	sizes := slices.Sorted(maps.Keys(p.readings[key]))
	var runs, times []repetitions
	var order [][2][]int
	severalRuns := false
	for _, b := range sizes {
		at := p.readings[key][b]
		byRun, each, runsOf := split(at)
		runs, times, order = append(runs, byRun), append(times, each), append(order, runsOf)
		severalRuns = severalRuns || len(byRun[0]) > 1 || len(byRun[1]) > 1
		r := SizeResult{Bytes: b}
		for side, cell := range []*Measured{&r.Before, &r.After} {
			*cell = measuredOf(key, at, side, b)
		}
		g.Rows = append(g.Rows, r)
	}
	// Starts differ more than repetitions within a start. Where there are several starts, they are the repetitions.
	values := times
	g.InStarts = opts.InStarts && p.together(order)
	switch {
	case g.InStarts:
		if g.Paired = true; severalRuns {
			values = nil
			for _, b := range sizes {
				values = append(values, inStarts(p.readings[key][b]))
			}
		}
		g.collapsed(p, times, passes(times), func(side, pass int) string { return p.logOfPass(key, side, pass) })
	case severalRuns:
		values = runs
		g.Paired = alternate(order, p.times, opts.Alternating)
		if g.Paired && !opts.Alternating {
			for i := range values {
				sortByTime(&values[i], &order[i], p.times)
			}
		}
		g.collapsed(p, values, order, func(side, run int) string { return p.logs[side][run] })
	}
	g.estimate(values)
	g.average(values)
	return g
}

// together reports whether all starts have both sides.
func (p *pool) together(order [][2][]int) bool {
	for _, runs := range order {
		if len(runs[0]) != len(runs[1]) {
			return false
		}
		for k := range runs[0] {
			if p.starts[0][runs[0][k]] != p.starts[1][runs[1][k]] {
				return false
			}
		}
	}
	return len(order) > 0
}

// inStarts has a value of each side for each start: the median before, and that plus the median difference of the pairs
// of passes. So a few pairs that were disturbed do not count.
func inStarts(at []reading) (v repetitions) {
	var of [2]map[int][]float64
	var starts []int
	for side := range of {
		of[side] = map[int][]float64{}
	}
	for _, r := range at {
		if r.side == 0 && of[0][r.run] == nil {
			starts = append(starts, r.run)
		}
		of[r.side][r.run] = append(of[r.side][r.run], math.Log(r.Micros))
	}
	for _, start := range starts {
		before, after := of[0][start], of[1][start]
		var change []float64
		for k := range min(len(before), len(after)) {
			change = append(change, after[k]-before[k])
		}
		middle := stats.Median(before)
		v[0], v[1] = append(v[0], middle), append(v[1], middle+stats.Median(change))
	}
	return v
}

// passes numbers the times of each side.
func passes(times []repetitions) (all [][2][]int) {
	for _, v := range times {
		var of [2][]int
		for side := range v {
			for k := range v[side] {
				of[side] = append(of[side], k)
			}
		}
		all = append(all, of)
	}
	return all
}

// logOfPass is the log of one of a side's passes, from 0.
func (p *pool) logOfPass(key bench.Series, side, pass int) string {
	for _, at := range p.readings[key] {
		of := slices.DeleteFunc(slices.Clone(at), func(r reading) bool { return r.side != side })
		if pass < len(of) {
			return p.logs[side][of[pass].run]
		}
	}
	return ""
}

// split returns the medians of runs, all readings, and which runs there are.
func split(at []reading) (byRun, each repetitions, runs [2][]int) {
	micros := [2]map[int][]float64{{}, {}}
	for _, r := range at {
		ln := math.Log(r.Micros)
		each[r.side] = append(each[r.side], ln)
		if micros[r.side][r.run] == nil {
			runs[r.side] = append(runs[r.side], r.run)
		}
		micros[r.side][r.run] = append(micros[r.side][r.run], ln)
	}
	for side := range runs {
		for _, run := range runs[side] {
			byRun[side] = append(byRun[side], stats.Median(micros[side][run]))
		}
	}
	return byRun, each, runs
}

// measuredOf sums up what one side measured at a size.
func measuredOf(key bench.Series, at []reading, side int, bytes uint64) Measured {
	counts := map[nccl.Config]int{}
	perMicro := 0.0
	c := Measured{Ran: Ran{nccl.Config{Cell: nccl.NoCell}}, OwnChannels: true}
	for _, r := range at {
		if r.side != side {
			continue
		}
		c.OwnChannels = c.OwnChannels && (r.kind.byDefault || r.kind.Channels == 0)
		if perMicro = max(perMicro, r.BusBW*r.Micros); r.Known() {
			counts[r.Config]++
		}
		if n, most := counts[r.Config], counts[c.Ran.Config]; n > most ||
			n == most && r.Config.Compare(c.Ran.Config) < 0 {
			c.Ran = Ran{r.Config}
		}
	}
	c.BusBW = perMicro // per microsecond, until the time is known
	if key.Ranks > 0 {
		c.BusBW = float64(bytes) / 1e3 * key.Coll.BusFactor(float64(key.Ranks))
	}
	return c
}

// estimate fills in the median, the ratio and the test of each size.
func (g *Section) estimate(values []repetitions) {
	parts := make([][]stats.Location, len(values))
	for i, v := range values {
		r := &g.Rows[i]
		for side, cell := range []*Measured{&r.Before, &r.After} {
			cell.Micros = math.Exp(stats.Median(v[side]))
			cell.BusBW /= cell.Micros
			cell.Reps = len(v[side])
		}
		r.Estimate = unknown(math.Log(r.After.Micros / r.Before.Micros))
		parts[i] = g.parts(v, 1)
	}
	weight := 1.0
	if g.InStarts {
		weight = weightOfStarts
	}
	moderate(parts, weight)
	for i := range parts {
		g.Rows[i].test = test(parts[i])
	}
}
