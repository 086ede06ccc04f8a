package fit

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/testkit/testlib"
)

// scalePair is what was measured of a collective on two numbers of nodes of one cluster, at least two each.
type scalePair struct{ from, to *Group }

// scalePairs are all pairs among the measured grids of ../../docs/measured and of the shared data beside the checkout.
func scalePairs(t *testing.T) (pairs []scalePair) {
	t.Helper()
	var files []string
	for _, pattern := range []string{"../../docs/measured/mi355x-*.csv", "../../../shared/data/sweeps/mi355x_*n.csv"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	all := map[Key]*Group{}
	for _, file := range files {
		r, err := testlib.Measurements(file)
		if err != nil {
			t.Fatal(err)
		}
		p := NewPool()
		for i := range r.Samples {
			p.Add(&r.Samples[i])
		}
		for _, g := range p.Set().Groups {
			if old := all[g.Key]; g.Nodes > 1 && len(g.Default) > 0 && (old == nil || len(old.Points) < len(g.Points)) {
				all[g.Key] = g
			}
		}
	}
	for _, from := range all {
		for _, to := range all {
			if from.Coll == to.Coll && from.Nodes < to.Nodes && to.Nodes <= 2*from.Nodes &&
				from.Ranks*to.Nodes == to.Ranks*from.Nodes {
				pairs = append(pairs, scalePair{from, to})
			}
		}
	}
	slices.SortFunc(pairs, func(a, b scalePair) int {
		return cmp.Or(a.from.Compare(b.from.Key), a.to.Compare(b.to.Key))
	})
	return pairs
}

// What rows for more nodes than were measured cost there. -v prints the table.
func TestCarriedRows(t *testing.T) {
	pairs := scalePairs(t)
	if len(pairs) == 0 {
		t.Skip("SKIPPED: no grids of two numbers of nodes of one cluster")
	}
	for _, w := range []way{
		{"NCCL's choice", func(*Group, grid) chooser {
			return func(uint64) (nccl.Config, bool) { return nccl.Config{}, false }
		}},
		{"winners above 3 %", func(g *Group, _ grid) chooser { return copied(g, 0.03) }},
		{"winners above 0.15", func(g *Group, _ grid) chooser { return copied(g, carriedGain) }},
		{"carried rows", func(g *Group, to grid) chooser {
			decide := DecideByRows(MoreNodes(compile(g), to.Nodes))
			return func(b uint64) (nccl.Config, bool) { return decide(to.Comm, to.call(b), everything) }
		}},
	} {
		var all regrets
		acts, unmeasured := 0, 0
		for _, p := range pairs {
			to := grid{Group: p.to}
			choose := w.learn(p.from, to)
			all.add(func(b uint64) (nccl.Config, bool) {
				c, ok := choose(b)
				switch {
				case ok && math.IsNaN(to.time(c, b)):
					unmeasured++
				case ok:
					acts++
				}
				return c, ok
			}, to, commonSizes(p.from, p.to))
		}
		t.Logf("%-20s %.4f of the best time over %d decisions of %d pairs, worst %.2f; %d slower than NCCL's choice of "+
			"%d that differ, %d not measured", w.name, all.mean(), all.n, len(pairs), all.worst, all.harm, acts,
			unmeasured)
		if w.name == "carried rows" && all.harm > 0 {
			t.Errorf("%d of %d carried decisions are slower than NCCL's", all.harm, acts)
		}
	}
}

func commonSizes(a, b *Group) []uint64 {
	return slices.DeleteFunc(sizesOf(b.Default), func(bytes uint64) bool { _, ok := a.defaultAt(bytes); return !ok })
}

// copied takes the winner where it gains more than so much in ln(us).
func copied(g *Group, least float64) chooser {
	return func(b uint64) (nccl.Config, bool) {
		d, ok := g.defaultAt(b)
		points := g.bySize()[b]
		if !ok || len(points) == 0 {
			return nccl.Config{}, false
		}
		best := slices.MinFunc(points, compareTimes)
		return best.Config, math.Log(d.Micros/best.Micros) > least
	}
}

// gridOf is a made-up grid of AllReduce: the default takes 100 us, configurations take what is given at each size from
// 1 MiB on.
func gridOf(nodes int, times map[nccl.Config][]float64) *Group {
	g := &Group{Key: Key{Coll: nccl.CollAllReduce, Comm: nccl.Comm{Nodes: nodes, Ranks: 8 * nodes}}, Noise: assumedNoise}
	for c, all := range times {
		for i, us := range all {
			b := uint64(1<<20) << i
			g.Points = append(g.Points, Point{Config: c, Bytes: b, Micros: us, Reps: 1})
			if len(g.Default) == i {
				g.Default = append(g.Default, Point{Config: unknownConfig, Bytes: b, Micros: 100, Reps: 1})
			}
		}
	}
	slices.SortFunc(g.Points, Point.compare)
	return g
}

// Rows that gain much on the most nodes that were measured are carried to at most twice as many, ring with fewer
// channels; none from one node, and none that gains too little.
func TestMoreNodes(t *testing.T) {
	config := func(a nccl.Algo, channels int) nccl.Config {
		return nccl.Config{Cell: nccl.Cell{Algo: a, Proto: nccl.ProtoLL128}, Channels: channels}
	}
	ring, tree := func(n int) nccl.Config { return config(nccl.AlgoRing, n) }, config(nccl.AlgoTree, 32)
	times := map[nccl.Config][]float64{
		tree:     {60, 60, 60, 120, 120, 120, 120},
		ring(8):  {200, 200, 200, 200, 200, 200, 200},
		ring(16): {200, 200, 200, 90, 90, 70, 70},
		ring(32): {200, 200, 200, 92, 92, 60, 60},
	}
	for _, test := range []struct {
		name     string
		measured []int
		asked    int
		want     string
	}{
		{"twice the nodes", []int{2}, 4, "3: tree/ll128 32 ch 1MiB - 5MiB, 3: ring/ll128 16 ch 20MiB - 64MiB, " +
			"4: tree/ll128 32 ch 1MiB - 5MiB, 4: ring/ll128 16 ch 20MiB - 64MiB"},
		{"as many as are asked for", []int{2}, 3, "3: tree/ll128 32 ch 1MiB - 5MiB, 3: ring/ll128 16 ch 20MiB - 64MiB"},
		{"no more than twice", []int{2}, 100, "3: tree/ll128 32 ch 1MiB - 5MiB, 3: ring/ll128 16 ch 20MiB - 64MiB, " +
			"4: tree/ll128 32 ch 1MiB - 5MiB, 4: ring/ll128 16 ch 20MiB - 64MiB"},
		{"from the most", []int{2, 3}, 4, "4: tree/ll128 32 ch 1MiB - 5MiB, 4: ring/ll128 16 ch 20MiB - 64MiB"},
		{"what was measured", []int{2, 4}, 4, ""},
		{"one node", []int{1}, 2, ""},
		{"not asked for", []int{2}, 0, ""},
	} {
		var groups []*Group
		for _, n := range test.measured {
			groups = append(groups, gridOf(n, times))
		}
		var got []string
		for _, r := range MoreNodes(compile(groups...), test.asked) {
			got = append(got, fmt.Sprintf("%d: %s %s - %s", r.Nodes, r.Config, about(r.Bytes.Min), about(r.Bytes.Max)))
			if from := test.measured[len(test.measured)-1]; r.From != from || r.Ranks != 8*r.Nodes ||
				r.Group() != groups[len(groups)-1].Key {
				t.Errorf("%s: %+v, want from %d nodes", test.name, r, from)
			}
		}
		if text := strings.Join(got, ", "); text != test.want {
			t.Errorf("%s: %s\nwant %s", test.name, text, test.want)
		}
	}
	if least, most := CarriedNodes(compile(gridOf(1, times), gridOf(3, times)).File); least != 4 || most != 6 {
		t.Errorf("rows for %d to %d nodes, want 4 to 6", least, most)
	}
}
