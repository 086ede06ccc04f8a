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
	} else {
		t.Overall = Mean{}
	}
	t.Tested = judge(all)
	if len(t.Sections) == 1 {
		t.Overall = t.Sections[0].Mean
	}
	t.count()
	t.remark(p, opts)
	return t
}

// times are those of one start at a size, in ln(us), in the order of its passes.
type times struct {
	run int // of the side
	ln  []float64
}

// repeated are the times of one side at a size, by start.
type repeated []times

// repetitions are the middles of starts, or the times of a single one.
func (s repeated) repetitions() (all []float64) {
	if len(s) == 1 {
		return s[0].ln
	}
	for _, of := range s {
		all = append(all, stats.Middle(of.ln))
	}
	return all
}

// sidesOf are the times at a size.
func sidesOf(at []reading) (v [2]repeated) {
	for _, r := range at {
		of := &v[r.side]
		i, there := slices.BinarySearchFunc(*of, r.run, func(s times, run int) int { return cmp.Compare(s.run, run) })
		if !there {
			*of = slices.Insert(*of, i, times{run: r.run})
		}
		(*of)[i].ln = append((*of)[i].ln, math.Log(r.Micros))
	}
	return v
}

// section compares the sizes of a series.
func (p *pool) section(key bench.Series, opts Options) Section {
	g := Section{Series: key, Unsteady: []CollapsedRun{}}
	var values [][2]repeated
	for _, b := range slices.Sorted(maps.Keys(p.readings[key])) {
		at := p.readings[key][b]
		values = append(values, sidesOf(at))
		r := SizeResult{Bytes: b}
		for side, cell := range []*Measured{&r.Before, &r.After} {
			*cell = measuredOf(key, at, side, b)
		}
		g.Rows = append(g.Rows, r)
	}
	g.InStarts = opts.InStarts && p.together(values)
	g.Paired = g.InStarts || p.inTurns(values, opts.Alternating)
	g.collapsed(p, values)
	g.estimate(values)
	return g
}

// together reports whether all starts have both sides.
func (p *pool) together(values [][2]repeated) bool {
	return !slices.ContainsFunc(values, func(v [2]repeated) bool {
		return !slices.EqualFunc(v[0], v[1], func(before, after times) bool {
			return p.starts[0][before.run] == p.starts[1][after.run] && len(before.ln) == len(after.ln)
		})
	})
}

// measuredOf sums up what one side measured at a size.
func measuredOf(key bench.Series, at []reading, side int, bytes uint64) Measured {
	counts := map[nccl.Config]int{}
	perMicro := 0.0
	c := Measured{Ran: Ran{nccl.Config{Cell: nccl.NoCell}}}
	for _, r := range at {
		if r.side != side {
			continue
		}
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
