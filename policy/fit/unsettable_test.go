package fit

import (
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// Rows and models of a sweep with RCCL never have more channels than RCCL takes itself, at any of their sizes. Where it
// does not tell its own number, they have none.
func TestRowsHaveNoMoreChannelsThanRCCL(t *testing.T) {
	for _, test := range []struct {
		with             string
		tells, more, any bool
	}{{"2.28.9", true, true, true}, {"RCCL 2.27.7", true, false, true}, {"RCCL 2.27.7", false, false, false}} {
		m := smallMachine()
		samples := m.sweep(3, 7)
		own := func(bytes uint64) int { return m.byDefault(bytes).Channels }
		for i := range samples {
			s := &samples[i]
			s.Setup = &bench.Setup{NCCL: test.with}
			if s.Selection == bench.SelectionDefault && !test.tells {
				s.Channels = 0
			}
		}
		set := pooled(samples)
		file, report := Fit(set, Options{})
		compiled := mustCompile(t, file)
		more, rows := false, Rows(compiled)
		for _, r := range rows {
			more = more || r.Channels > own(r.Bytes.Min) || r.Channels > own(r.Bytes.Max)
		}
		for _, b := range m.sizes {
			c, why := compiled.For(m.Comm).Choose(nccl.Call{Coll: m.Coll, Bytes: b}, everything)
			more = more || why == model.Decides && c.Channels > own(b)
		}
		if more != test.more || len(rows) > 0 != test.any {
			t.Errorf("%+v: %v", test, rows)
		}
		if why := refusedMore; strings.Contains(test.with, "RCCL") != slices.ContainsFunc(set.Refused,
			func(r Refusal) bool { return r.Reason == why && r.Rows > 0 }) || set.Used+refusedRows(set) != set.Rows {
			t.Errorf("%+v: used %d of %d, refused %+v", test, set.Used, set.Rows, set.Refused)
		}
		if edge := report.Groups[0].Edge; test.with != "2.28.9" && edge > own(1) {
			t.Errorf("%+v: %d channels are said to be at the end of those tried", test, edge)
		}
	}
}

func refusedRows(s *Set) (n int) {
	for _, r := range s.Refused {
		n += r.Rows
	}
	return n
}

// No run of a sweep with RCCL asks for more channels than RCCL takes itself at any of its sizes.
func TestRaceHasNoMoreChannelsThanRCCL(t *testing.T) {
	truth := broadcastLike(0.09)
	space := spaceOf(truth)
	space.Asked = map[Request]bool{}
	seen := &Group{Key: truth.Key, Noise: truth.Noise, Default: slices.Clone(truth.Default), neverMore: true}
	for i := range seen.Default {
		seen.Default[i].Config.Channels = space.Channels[min(1+i/2, len(space.Channels)-1)]
	}
	runs, configs := 0, map[nccl.Config]bool{}
	for plan := space.Next(seen); plan.Stage < StageVerify; plan = space.Next(seen) {
		if runs++; runs > 20 {
			t.Fatal("the sweep does not end")
		}
		for _, pass := range plan.Passes {
			for k, b := range plan.Sizes {
				c := pass[k]
				if c == ByDefault {
					continue
				}
				space.Asked[Request{c, b}], configs[c] = true, true
				if c.Channels > seen.mostByDefault(b) || c.Channels == 0 {
					t.Errorf("%s is asked for at %d, where RCCL takes %d", c, b, seen.mostByDefault(b))
				}
				if point, ok := truth.at(c, b); ok {
					seen.Points = append(seen.Points, point)
				}
			}
		}
		slices.SortFunc(seen.Points, Point.compare)
		seen.Points = slices.CompactFunc(seen.Points, func(a, b Point) bool { return a.compare(b) == 0 })
	}
	if len(configs) < len(space.Families)+2 {
		t.Errorf("only %v are asked for", configs)
	}
}

// Channel counts that a tuner cannot have with the release that was measured are no configurations.
func TestUnsettableChannels(t *testing.T) {
	m := smallMachine()
	for _, test := range []struct {
		coll nccl.Coll
		with string
		most int // of the channels left where the default is ring/simple with 8 channels
		why  string
	}{
		{nccl.CollAllReduce, "2.30.7", 32, ""},
		{nccl.CollAllReduce, "2.31.2", 8, refusedRaised},
		{nccl.CollAllReduce, "2.30.7, 2.31.2", 32, ""},
		{nccl.CollReduceScatter, "2.30.7", 32, ""},
		{nccl.CollAllGather, "2.28.9", 32, ""},
		{nccl.CollAllGather, "2.30.7", -1, refusedUnchecked},
		{nccl.CollAllGather, "", 32, ""},
	} {
		m.Coll = test.coll
		samples := m.sweep(1, 3)
		pool := NewPool()
		for i := range samples {
			samples[i].Setup = &bench.Setup{NCCL: test.with}
			if test.with == "2.30.7, 2.31.2" {
				samples[i].Setup.NCCL = []string{"2.30.7", "2.31.2"}[i%2]
			}
			pool.Add(&samples[i])
		}
		set := pool.Set()
		g, ring := set.Groups[0], nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoSimple}
		if most := g.mostChannels(ring, 1<<20); most != test.most {
			t.Errorf("%s with %s: %d channels are left, want %d", test.coll, test.with, most, test.most)
		}
		if got := len(set.Refused) > 0; got != (test.why != "") || got && set.Refused[0].Reason != test.why {
			t.Errorf("%s with %s: refused %+v", test.coll, test.with, set.Refused)
		}
	}
}
