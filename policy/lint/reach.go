package lint

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// reach tells which rows some call can reach.
//
// Of the calls that a row matches, those are the easiest to reach it by whose
// values no other row names: all rows that match such a call match every call of
// the row. So one representative per row is enough, where unnamed values exist. They
// do but for two cases. With the number of ranks known and that of nodes not, all
// node counts may be named; then each is looked at. And where bytes per rank meet
// bytes, the number of ranks limits which sizes of either go together; reachMixed
// does that.
type reach struct {
	before covers // of the rows before the one in question

	// nodes and perNode are all values that rows name.
	nodes, perNode map[int32]bool

	// work is what is left of the effort that mixed rows may take.
	work    int
	givenUp int // rows that it did not last for
}

// mixedWork is the effort for mixed rows, in elementary steps of some nanoseconds.
const mixedWork = 50_000_000

func newReach(rows []*row) *reach {
	a := &reach{before: covers{}, nodes: map[int32]bool{}, perNode: map[int32]bool{}, work: mixedWork}
	for _, r := range rows {
		a.nodes[r.key.wants[policy.Nodes]], a.perNode[r.key.wants[policy.RanksPerNode]] = true, true
	}
	return a
}

// reached reports whether some call reaches the row, and then lets the row stand
// before those that come.
func (a *reach) reached(r *row) bool {
	any := false
	for _, coll := range r.Colls() {
		k := r.key
		k.coll = coll
		if any = a.reachedOn(k, r); any {
			break
		}
	}
	if !r.when { // a condition may fail
		a.before.add(r)
	}
	return any
}

// reachedOn looks for node counts that no row names.
func (a *reach) reachedOn(k key, r *row) bool {
	if k.wants[policy.Ranks] < 0 || k.wants[policy.Nodes] > 0 {
		return a.reachedAt(k, r)
	}
	for n := int32(1); n <= k.wants[policy.Ranks]; n++ {
		on := k
		on.wants[policy.Nodes] = n
		on = on.settled()
		if !a.nodes[n] && (on.wants[policy.RanksPerNode] == uneven || !a.perNode[on.wants[policy.RanksPerNode]]) {
			return a.reachedAt(k, r)
		}
	}
	for n := int32(1); n <= k.wants[policy.Ranks]; n++ {
		on := k
		on.wants[policy.Nodes] = n
		if a.reachedAt(on.settled(), r) {
			return true
		}
	}
	return false
}

// reachedAt looks at the one representative of k.
func (a *reach) reachedAt(k key, r *row) bool {
	all, mixed := a.before.of(k)
	if k.wants[policy.Ranks] > 0 {
		sizes, ok := r.BytesFor(int(k.wants[policy.Ranks]))
		if !ok {
			return false
		}
		for _, m := range slices.Concat(mixed...) {
			if s, ok := m.BytesFor(int(k.wants[policy.Ranks])); ok {
				all = append(all, covered{cells: m.cells, bytes: ranges{s}})
			}
		}
		return !holdAll(all, sizes, r.cells, uint64(k.wants[policy.Ranks]))
	}
	switch {
	case r.axis == byBytes && holdAll(all, r.sizes, r.cells, 0),
		r.axis == byPerRank && holdAll(perRankOnly(all), r.sizes, r.cells, 0):
		return false
	case r.axis == byBytes && !anyPerRank(all) && len(mixed) == 0,
		r.axis == byPerRank && !anyBytes(all) && len(mixed) == 0:
		return true
	}
	return a.reachedMixed(k, r, all, mixed)
}

func anyPerRank(all []covered) bool {
	for i := range all {
		if len(all[i].perRank) > 0 {
			return true
		}
	}
	return false
}

func anyBytes(all []covered) bool {
	for i := range all {
		if len(all[i].bytes) > 0 {
			return true
		}
	}
	return false
}

// culprits names the earlier rows that keep r from being reached: one that does so
// alone, else those without which a part would be free.
func culprits(r *row, earlier []*row) []*row {
	var some []*row
	for _, e := range earlier {
		if !e.active() || e.when || e.cells&r.cells == 0 || !r.key.meets(e.key) {
			continue
		}
		if _, ok := both(e.sizes, r.sizes); !ok && e.axis == r.axis {
			continue
		}
		if r.key.within(e.key) && r.cells&^e.cells == 0 && holds(e.Bytes, r.Bytes) && holds(e.BytesPerRank, r.BytesPerRank) {
			return []*row{e}
		}
		if r.key.within(e.key) && r.cells&^e.cells == 0 && e.axis == byBytes && r.axis == byBytes && holds(e.sizes, r.sizes) {
			return []*row{e}
		}
		some = append(some, e)
	}
	return necessary(r, some)
}

// maxNamed bounds how many rows are tried for being needed.
const maxNamed = 50

func necessary(r *row, some []*row) []*row {
	if len(some) > maxNamed {
		return some
	}
	unreached := func(without int) bool {
		a := newReach(append([]*row{r}, some...))
		for i, e := range some {
			if i != without {
				a.before.add(e)
			}
		}
		return !a.reached(r)
	}
	for i := len(some) - 1; i >= 0; i-- {
		if unreached(i) {
			some = append(some[:i:i], some[i+1:]...)
		}
	}
	return some
}
