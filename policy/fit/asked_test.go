package fit

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// A sweep ends whatever its runs measure: no run asks only for what was asked for before.
func TestNothingIsAskedForTwice(t *testing.T) {
	truth := broadcastLike(0.09)
	rng := rand.New(rand.NewPCG(1, 2))
	gaps := map[Request]bool{}
	for _, c := range truth.Points {
		gaps[Request{c.Config, c.Bytes}] = rng.Float64() < 0.75
	}
	for name, came := range map[string]struct {
		as   func(Point) (Point, bool)
		most int // starts
	}{
		"nothing comes back":   {func(Point) (Point, bool) { return Point{}, false }, 2},
		"a quarter comes back": {func(c Point) (Point, bool) { return c, !gaps[Request{c.Config, c.Bytes}] }, 12},
		// Where NCCL keeps its own number of channels it is not asked for a second one.
		"own channels come back": {func(c Point) (Point, bool) { c.Config.Channels = 0; return c, true }, 1},
		"few channels come back": {func(c Point) (Point, bool) { return c, c.Config.Channels < 8 }, 12},
	} {
		t.Run(name, func(t *testing.T) {
			space, seen, runs := spaceOf(truth), &Group{Key: truth.Key, Noise: truth.Noise}, 0
			space.Asked = map[Request]bool{}
			for plan := space.Next(seen); plan.Stage < StageVerify; plan = space.Next(seen) {
				if runs++; runs > came.most {
					t.Fatalf("the sweep does not end: %+v", plan)
				}
				seen.Default = truth.Default
				fresh := false
				for _, pass := range plan.Passes {
					for k, b := range plan.Sizes {
						ask := Request{pass[k], b}
						if ask.Config == ByDefault {
							continue
						}
						fresh = fresh || !space.Asked[ask]
						space.Asked[ask] = true
						c, _ := truth.at(ask.Config, b)
						if c, ok := came.as(c); ok {
							seen.Points = append(seen.Points, c)
						}
					}
				}
				if !fresh {
					t.Fatalf("all of it was asked for before: %+v", plan)
				}
				slices.SortFunc(seen.Points, Point.compare)
				seen.Points = slices.CompactFunc(seen.Points, func(a, b Point) bool { return a.compare(b) == 0 })
			}
			t.Logf("%d runs", runs)
		})
	}
}

// Where NCCL only lowers channels, more than it takes by itself at a size are asked for once, and fewer all the same.
func TestNoMoreChannelsThanNCCLTakes(t *testing.T) {
	truth := broadcastLike(0.09)
	space := spaceOf(truth)
	space.Asked = map[Request]bool{}
	seen := &Group{Key: truth.Key, Noise: truth.Noise, Default: truth.Default, onlyLower: true}
	own := func(b uint64) int {
		return space.Channels[min(1+slices.Index(space.Sizes, b)/2, len(space.Channels)-1)]
	}
	fewer, stages := 0, map[Stage]int{}
	plan := space.Next(seen)
	for first := true; plan.Stage < StageVerify; plan, first = space.Next(seen), false {
		stages[plan.Stage]++
		for _, pass := range plan.Passes {
			for k, b := range plan.Sizes {
				c := pass[k]
				if c == ByDefault {
					continue
				}
				space.Asked[Request{c, b}] = true
				if c.Channels > own(b) && !first {
					t.Errorf("%s is asked for at %d, where NCCL takes %d", c, b, own(b))
				}
				if c.Channels < own(b) {
					fewer++
				}
				c.Channels = min(c.Channels, own(b))
				if point, ok := truth.at(c, b); ok {
					seen.Points = append(seen.Points, point)
				}
			}
		}
		slices.SortFunc(seen.Points, Point.compare)
		seen.Points = slices.CompactFunc(seen.Points, func(a, b Point) bool { return a.compare(b) == 0 })
	}
	if fewer == 0 || stages[StageFirst] != 1 || stages[StageRound] == 0 {
		t.Errorf("fewer channels were asked for %d times, stages %v", fewer, stages)
	}
	for _, pass := range plan.Passes {
		for i, c := range pass {
			if c.Channels > own(plan.Sizes[i]) {
				t.Errorf("%s is to be verified at %d, where NCCL takes %d", c, plan.Sizes[i], own(plan.Sizes[i]))
			}
		}
	}
	for _, u := range space.Unmet(seen) {
		if !u.OwnChannels {
			t.Errorf("%s is not called NCCL's own number", u.Config)
		}
	}
}

// What was asked for in vain is told apart from a number of channels that NCCL does not take.
func TestUnmet(t *testing.T) {
	ring, tree := nccl.Cell{Algo: nccl.AlgoRing, Proto: nccl.ProtoLL}, nccl.Cell{Algo: nccl.AlgoTree,
		Proto: nccl.ProtoLL}
	g := &Group{Points: []Point{{Config: nccl.Config{Cell: tree, Channels: 8}, Bytes: 1},
		{Config: nccl.Config{Cell: ring}, Bytes: 1}, {Config: nccl.Config{Cell: ring}, Bytes: 2}}}
	slices.SortFunc(g.Points, Point.compare)
	s := Space{Channels: []int{8, 16}, Failed: []nccl.Config{{Cell: tree, Channels: 16}}, Asked: map[Request]bool{
		{nccl.Config{Cell: ring, Channels: 8}, 2}: true, {nccl.Config{Cell: ring, Channels: 8}, 1}: true,
		{nccl.Config{Cell: ring}, 1}: true, {nccl.Config{Cell: tree, Channels: 8}, 1}: true,
		{nccl.Config{Cell: tree, Channels: 8}, 4}: true, {nccl.Config{Cell: tree, Channels: 16}, 1}: true,
	}}
	got := s.Unmet(g)
	if len(got) != 2 || got[0].Config != (nccl.Config{Cell: tree, Channels: 8}) || got[0].OwnChannels ||
		!slices.Equal(got[0].Sizes, []uint64{4}) ||
		got[1].Config != (nccl.Config{Cell: ring, Channels: 8}) || !got[1].OwnChannels ||
		!slices.Equal(got[1].Sizes, []uint64{1, 2}) {
		t.Errorf("%+v", got)
	}
}

// Where NCCL only lowers a tuner's channels, what ran with its own number at each size is one configuration, and a row
// leaves the number to NCCL.
func TestOwnNumberOfChannelsIsOneConfiguration(t *testing.T) {
	p := NewPool()
	setup := &bench.Setup{NCCL: "2.31.2"}
	tree := bench.Sample{Call: nccl.Call{Coll: nccl.CollAllReduce}, DType: "float",
		Comm:      nccl.Comm{Nodes: 1, Ranks: 8},
		Config:    nccl.Config{Cell: nccl.Cell{Algo: nccl.AlgoTree, Proto: nccl.ProtoLL}},
		Selection: bench.SelectionForced, Setup: setup}
	ring := tree
	ring.Algo, ring.Selection = nccl.AlgoRing, bench.SelectionDefault
	for i := range 6 {
		tree.Bytes, tree.Channels, tree.Micros = 4096<<i, min(2<<i, 32), 10*float64(1+i)
		ring.Bytes, ring.Channels, ring.Micros = tree.Bytes, tree.Channels, 1.2*tree.Micros
		fewest := tree
		fewest.Channels, fewest.Micros = 1, 3*tree.Micros
		p.Add(&tree)
		p.Add(&ring)
		p.Add(&fewest)
		if tree.Channels < 32 {
			asked := tree
			asked.Channels = 32
			p.Fail(&asked)
		}
	}
	file, _ := Fit(p.Set(), Options{})
	rows := Rows(mustCompile(t, file))
	if len(rows) == 0 || rows[0].Channels != 0 || rows[0].Bytes.Max < 4096<<3 {
		t.Errorf("%v", rows)
	}
}
