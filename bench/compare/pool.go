package compare

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// reading is a sample in the pool.
type reading struct {
	*bench.Sample
	side int
	run  int // of the side, in the order of arrival
	kind kind
}

// kind is what was asked of NCCL: rows of several kinds at one size are a sweep.
type kind struct {
	byDefault bool
	nccl.Config
}

// unlabelled is a forced configuration that is not known.
var unlabelled = kind{Config: nccl.Config{Cell: nccl.NoCell}}

func kindOf(s *bench.Sample) kind {
	c := s.Config
	switch {
	case s.Selection == bench.SelectionDefault:
		return kind{byDefault: true}
	case !c.Known():
		return unlabelled
	case s.Selection == bench.SelectionOwnChannels:
		c.Channels = 0
	}
	return kind{Config: c}
}

// run names the start that a sample was measured in: its log and, where the log holds several, its place among them.
type run struct {
	log   string
	setup *bench.Setup // nil where a sample knows its start
	start int
}

// seriesOf is what a sample is compared with. Variables may be what changed, and then the table names them. Where it is
// not known whether they were set, times are compared with no others.
func seriesOf(s *bench.Sample) bench.Series {
	series := s.Series()
	if series.Unknown() == nil {
		series.Variables = ""
	}
	return series
}

// pool holds the readings of both sides, by key and size.
type pool struct {
	readings map[bench.Series]map[uint64][]reading
	measured map[bench.Series][2]bool // by which sides
	runs     [2]map[run]int
	times    [2][]string // when each run began; empty: not known
	logs     [2][]string // file of each run
	starts   [2][]run    // what each is
	leftOut  map[LeftOut]int
	names    [2]string
}

func (p *pool) leave(side int, rows int, reason string, args ...any) {
	if rows > 0 {
		p.leftOut[LeftOut{Side: p.names[side], Reason: fmt.Sprintf(reason, args...)}] += rows
	}
}

func (p *pool) add(side int, s *bench.Sample) {
	if s.Bytes == 0 || !(s.Micros > 0) {
		p.leave(side, 1, "size or time is 0")
		return
	}
	r := run{log: s.File(), setup: s.Setup}
	if s.Start > 0 {
		r.setup, r.start = nil, s.Start
	}
	n, ok := p.runs[side][r]
	if !ok {
		n = len(p.runs[side])
		p.runs[side][r] = n
		began := ""
		if s.Setup != nil {
			began = strings.Replace(s.Setup.Time, "T", " ", 1)
		}
		p.times[side], p.logs[side] = append(p.times[side], began), append(p.logs[side], r.log)
		p.starts[side] = append(p.starts[side], r)
	}
	key := seriesOf(s)
	if p.readings[key] == nil {
		p.readings[key] = map[uint64][]reading{}
	}
	by := p.measured[key]
	by[side] = true
	p.measured[key] = by
	p.readings[key][s.Bytes] = append(p.readings[key][s.Bytes], reading{s, side, n, kindOf(s)})
}

// choose keeps of each side what is compared, and leaves out the rest.
func (p *pool) choose(key bench.Series, opts Options) {
	for side := range p.names {
		sweep, defaults := false, false
		known := map[kind]bool{}
		for _, at := range p.readings[key] {
			here := map[kind]bool{}
			for _, r := range at {
				if r.side == side && r.kind != unlabelled {
					here[r.kind], known[r.kind] = true, true
				}
			}
			sweep = sweep || len(here) > 1
			defaults = defaults || here[kind{byDefault: true}]
		}
		delete(known, kind{byDefault: true})
		switch {
		case opts.Config != nil:
			hint := ""
			if opts.Config.Channels == 0 {
				hint = ", or channels that are not left to NCCL"
			}
			p.keep(key, side, func(r reading) bool { return !r.kind.byDefault && r.kind.Config == *opts.Config },
				"another configuration%s", hint)
		case sweep && defaults:
			p.keep(key, side, func(r reading) bool { return r.kind.byDefault },
				"%d forced configurations; NCCL's default is compared", len(known))
		case sweep:
			p.keep(key, side, func(reading) bool { return false },
				"%d forced configurations and no default, name one of them: %s", len(known), few(known))
		}
	}
}

func few(kinds map[kind]bool) string {
	var names []string
	for k := range kinds {
		names = append(names, k.Config.Label())
	}
	slices.Sort(names)
	if len(names) > 3 {
		names = append(names[:3], "...")
	}
	return strings.Join(names, " ")
}

func (p *pool) keep(key bench.Series, side int, wanted func(reading) bool, reason string, args ...any) {
	for bytes, at := range p.readings[key] {
		kept := slices.DeleteFunc(at, func(r reading) bool { return r.side == side && !wanted(r) })
		p.leave(side, len(at)-len(kept), reason, args...)
		p.readings[key][bytes] = kept
	}
}

// common drops the sizes that only one side has.
func (p *pool) common(key bench.Series) {
	others := [2][]bench.Conditions{} // those of each side, of the same otherwise
	for k, sizes := range p.measured {
		bare := k
		if bare.Conditions = key.Conditions; bare != key || k == key {
			continue
		}
		for side := range others {
			if sizes[side] {
				others[side] = append(others[side], k.Conditions)
			}
		}
	}
	for bytes, at := range p.readings[key] {
		n := [2]int{}
		for _, r := range at {
			n[r.side]++
		}
		for side := range n {
			if n[1-side] == 0 && n[side] > 0 {
				why := fmt.Sprintf("a size, data type, collective or communicator that %s does not have",
					p.names[1-side])
				if !p.measured[key][1-side] && len(others[1-side]) > 0 {
					why = apart(key.Conditions, others[1-side], p.names[1-side])
				}
				p.leave(side, n[side], "%s", why)
			}
		}
		if n[0] == 0 || n[1] == 0 {
			delete(p.readings[key], bytes)
		}
	}
	if len(p.readings[key]) == 0 {
		delete(p.readings, key)
	}
}

// apart says why times under some conditions are not compared with those that the other side has.
func apart(c bench.Conditions, others []bench.Conditions, other string) string {
	const known = "known settings"
	var options, variables, unknown []string
	for _, o := range others {
		options = append(options, cmp.Or(o.Options, "unknown ones"))
		if o.Options == c.Options {
			variables, unknown = append(variables, cmp.Or(o.Variables, known)), append(unknown, o.Unknown()...)
		}
	}
	if variables == nil {
		return fmt.Sprintf("other options of nccl-tests, which are never compared: %s, and %s has %s",
			cmp.Or(c.Options, "unknown ones"), other, joined(options))
	}
	unknown = append(c.Unknown(), unknown...)
	flag := "--default if NCCL chose, or --algo"
	if name, _, is := strings.Cut(unknown[0], "="); is {
		flag = fmt.Sprintf("--with %s, or --with %s= if it was not set", unknown[0], name)
	}
	return fmt.Sprintf("a setting of which nothing tells whether it was set is compared with no other one: %s, and %s "+
		"has %s (tell tunefit import what ran, by %s, and compare the files that it writes)",
		cmp.Or(c.Variables, known), other, joined(variables), flag)
}

// mainVariants keeps one data type, reduction and placement of each collective and communicator: the one with most
// sizes, and of equals the first in order, which is out-of-place. nccl-tests measures both placements. Their times
// are no repetitions of each other, and nearly the same.
func (p *pool) mainVariants() {
	bare := func(k bench.Series) bench.Series {
		return bench.Series{Coll: k.Coll, Comm: k.Comm, Conditions: k.Conditions}
	}
	main := map[bench.Series]bench.Series{}
	for _, k := range p.series() {
		if m, ok := main[bare(k)]; !ok || len(p.readings[k]) > len(p.readings[m]) {
			main[bare(k)] = k
		}
	}
	for _, k := range p.series() {
		if main[bare(k)] == k {
			continue
		}
		for _, at := range p.readings[k] {
			for _, r := range at {
				p.leave(r.side, 1, "%s (--all compares them, too)", k.Variant())
			}
		}
		delete(p.readings, k)
	}
}

func (p *pool) series() []bench.Series {
	return slices.SortedFunc(maps.Keys(p.readings), bench.Series.Compare)
}

func (p *pool) left() []LeftOut {
	all := []LeftOut{}
	for l, n := range p.leftOut {
		l.Rows = n
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b LeftOut) int {
		return cmp.Or(slices.Index(p.names[:], a.Side)-slices.Index(p.names[:], b.Side), cmp.Compare(b.Rows, a.Rows),
			cmp.Compare(a.Reason, b.Reason))
	})
	return all
}
