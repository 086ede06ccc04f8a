package lint

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// area is what a row matches of the pairs of bytes and bytes per rank.
type area struct {
	cells          cells
	bytes, perRank policy.Range
}

var everySize = policy.Range{Min: 0, Max: nccl.Inf}

// reachedMixed answers for communicators of any number of ranks where rows limit
// bytes, bytes per rank or both. The limits cut the pairs of both into
// rectangles. One that is not covered leaves the row free if some number of ranks
// has bytes of it share out into the bytes per rank of it: if any large number
// does, then also one that no row names; else each possible one is looked at.
func (a *reach) reachedMixed(k key, r *row, all []covered, mixed [][]*row) bool {
	effort := len(all)
	for _, of := range mixed {
		effort += len(of)
	}
	if !a.spend(effort) {
		return true
	}
	areas := areasOf(r, all, slices.Concat(mixed...))
	bytes := cuts(r.Bytes, areas, func(x area) policy.Range { return x.bytes })
	perRank := cuts(r.BytesPerRank, areas, func(x area) policy.Range { return x.perRank })
	tried := map[uint64]bool{}
	for _, b := range bytes {
		for _, p := range perRank {
			if !a.spend(1 + len(areas)) {
				return true
			}
			have := cells(0)
			for i := range areas {
				if holds(areas[i].bytes, b) && holds(areas[i].perRank, p) {
					have |= areas[i].cells
				}
			}
			if r.cells&^have == 0 {
				continue
			}
			if p.Min == 0 {
				return true // any number of ranks above b
			}
			fewest, most := uint64(1), b.Max/p.Min
			if p.Max < nccl.Inf {
				fewest = b.Min/(p.Max+1) + 1
			}
			if most > 1<<30 {
				return true // so many that rows cannot name them all
			}
			for ranks := fewest; ranks <= most; ranks++ {
				if !a.spend(100) {
					return true
				}
				if tried[ranks] || !k.allows(ranks) {
					continue
				}
				tried[ranks] = true
				on := k
				on.wants[policy.Ranks] = int32(ranks)
				if a.reachedOn(on.settled(), r) {
					return true
				}
			}
		}
	}
	return false
}

// spend takes n steps from what is left; without enough the row is not examined.
func (a *reach) spend(n int) bool {
	if a.work >= n {
		a.work -= n
		return true
	}
	a.work = 0
	a.givenUp++
	return false
}

// allows reports whether a communicator of k can have that many ranks.
func (k key) allows(ranks uint64) bool {
	return ranks >= uint64(max(k.wants[policy.Nodes], 2)) && (k.wants[policy.RanksPerNode] <= 0 || ranks%uint64(k.wants[policy.RanksPerNode]) == 0)
}

func areasOf(r *row, all []covered, mixed []*row) []area {
	var areas []area
	add := func(x area) {
		_, b := both(x.bytes, r.Bytes)
		_, p := both(x.perRank, r.BytesPerRank)
		if b && p && x.cells&r.cells != 0 {
			areas = append(areas, x)
		}
	}
	for _, c := range all {
		for _, s := range c.bytes {
			add(area{c.cells, s, everySize})
		}
		for _, s := range c.perRank {
			add(area{c.cells, everySize, s})
		}
	}
	for _, m := range mixed {
		add(area{m.cells, m.Bytes, m.BytesPerRank})
	}
	return areas
}

// cuts parts a range at the ends of what areas have on one axis.
func cuts(whole policy.Range, areas []area, on func(area) policy.Range) []policy.Range {
	starts := []uint64{whole.Min}
	add := func(n uint64) {
		if whole.Min < n && n <= whole.Max {
			starts = append(starts, n)
		}
	}
	for _, x := range areas {
		r := on(x)
		add(r.Min)
		if r.Max < nccl.Inf {
			add(r.Max + 1)
		}
	}
	slices.Sort(starts)
	starts = slices.Compact(starts)
	parts := make([]policy.Range, len(starts))
	for i, s := range starts {
		parts[i] = policy.Range{Min: s, Max: whole.Max}
		if i > 0 {
			parts[i-1].Max = s - 1
		}
	}
	return parts
}
