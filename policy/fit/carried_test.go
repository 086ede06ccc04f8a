package fit

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// What a few runs on more nodes find, of what was the fastest on fewer. -v prints the table.
func TestFewRunsOnMoreNodes(t *testing.T) {
	pairs := scalePairs(t)
	if len(pairs) == 0 {
		t.Skip("SKIPPED: no grids of two numbers of nodes of one cluster")
	}
	three := func(p scalePair) (plan Plan) {
		points := p.from.bySize()
		plan.Sizes = commonSizes(p.from, p.to)
		for k := range 3 {
			var pass Pass
			for _, b := range plan.Sizes {
				slices.SortFunc(points[b], compareTimes)
				pass = append(pass, points[b][min(k, len(points[b])-1)].Config)
			}
			plan.Passes = append(plan.Passes, pass)
		}
		return plan
	}
	for name, plan := range map[string]func(p scalePair) Plan{
		"the three fastest":               three,
		"the fastest, and fewer channels": func(p scalePair) Plan { return scaledSpace(p).Verification(p.from) },
	} {
		var all regrets
		unmeasured, most := 0, 0
		for _, p := range pairs {
			to, found := grid{Group: p.to}, map[uint64]nccl.Config{}
			planned := plan(p)
			most = max(most, len(planned.Passes))
			for _, pass := range planned.Passes {
				for i, b := range planned.Sizes {
					if pass[i] == ByDefault {
						continue
					}
					best, ok := found[b]
					us := to.time(pass[i], b)
					switch d, _ := to.defaultAt(b); {
					case math.IsNaN(us):
						unmeasured++
					case us < d.Micros && (!ok || us < to.time(best, b)):
						found[b] = pass[i]
					}
				}
			}
			all.add(func(b uint64) (nccl.Config, bool) { c, ok := found[b]; return c, ok }, to, commonSizes(p.from, p.to))
		}
		t.Logf("%s: %.4f of the best time over %d, worst %.2f, at most %d passes, %d not measured", name, all.mean(), all.n,
			all.worst, most, unmeasured)
	}
}

// scaledSpace is what may be measured on the larger number of nodes: what was.
func scaledSpace(p scalePair) Space {
	s := Space{Key: p.to.Key, Sizes: commonSizes(p.from, p.to)}
	for _, c := range p.to.Configs() {
		if !slices.Contains(s.Families, c.Cell) {
			s.Families = append(s.Families, c.Cell)
		}
		s.Channels = append(s.Channels, c.Channels)
	}
	slices.Sort(s.Channels)
	s.Channels = slices.Compact(s.Channels)
	return s
}

// On more nodes two configurations are measured at each size: the fastest on fewer, and that with fewer channels.
func TestVerificationOnMoreNodes(t *testing.T) {
	config := func(a nccl.Algo, channels int) nccl.Config {
		return nccl.Config{Cell: nccl.Cell{Algo: a, Proto: nccl.ProtoLL128}, Channels: channels}
	}
	g := gridOf(2, map[nccl.Config][]float64{
		config(nccl.AlgoRing, 32): {80, 80, 95}, config(nccl.AlgoRing, 8): {120, 120, 120},
		config(nccl.AlgoTree, 32): {82, 82, 70}, config(nccl.AlgoTree, 8): {81, 81, 69},
	})
	s := Space{Key: g.Key, Sizes: sizesOf(g.Default), Channels: []int{4, 8, 16, 32},
		Families: []nccl.Cell{config(nccl.AlgoRing, 0).Cell, config(nccl.AlgoTree, 0).Cell}}
	s.Comm = nccl.Comm{Nodes: 16, Ranks: 128}
	s.Failed = []nccl.Config{config(nccl.AlgoRing, 16)}
	want := []Pass{
		{ByDefault, ByDefault, ByDefault},
		{config(nccl.AlgoRing, 32), config(nccl.AlgoRing, 32), config(nccl.AlgoTree, 8)},
		{config(nccl.AlgoRing, 8), config(nccl.AlgoRing, 8), config(nccl.AlgoTree, 4)},
	}
	if got := s.Verification(g).Passes; !reflect.DeepEqual(got, slices.Repeat(want, Turns)) {
		t.Errorf("%v\nwant %v", got, want)
	}
}

// What was the fastest on four nodes is verified on five, in two starts: what one start draws makes no row.
func TestRaceOnMoreNodes(t *testing.T) {
	all := readGrids(t, map[string][]string{"../../docs/measured/mi355x-allreduce-4n-5n.csv": {"4", "5"}})
	for i := range all {
		fillGaps(all[i].Group)
	}
	var o outcome
	for seed := range uint64(4 * raceSeeds) {
		d := disturbance{noise: 0.01, draws: 0.02}
		four, five := d.of(all[0].Group, seed), d.of(all[1].Group, seed+100)
		five.space.Smaller = four.sweep(t)
		o.add(t, five)
		if five.starts != CarriedStarts {
			t.Errorf("five nodes take %d starts", five.starts)
		}
	}
	t.Logf("%v", o)
	if o.harm/o.sizes > 0.01 || o.regret/o.sizes > 1.01 {
		t.Errorf("%v; must be at most 1.01, harm 1 %%", o)
	}
}
