package fit

import (
	"maps"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// counts are the channel counts that a family was measured with.
type counts struct {
	own, asked bool           // some were the library's choice, or asked for as far as is known
	bySize     map[uint64]int // the only count at each size; nil: there are several
}

// rises tells NCCL's choice by its rule: one count at each size, which changes with the size and does not fall as
// sizes grow (NCCL 2.30.7: topoGetAlgoInfo, src/enqueue.cc).
func (c *counts) rises() bool {
	if c.bySize == nil {
		return false
	}
	var inOrder []int
	for _, b := range slices.Sorted(maps.Keys(c.bySize)) {
		inOrder = append(inOrder, c.bySize[b])
	}
	return slices.IsSorted(inOrder) && inOrder[0] > 0 && inOrder[0] < inOrder[len(inOrder)-1]
}

// ownFamilies returns the families of which no count was asked for. Where nothing tells that, a family whose counts
// rise shows that the others with one count at each size were not asked either: a sweep over channels has several
// counts.
func ownFamilies(families map[nccl.Cell]*counts) map[nccl.Cell]bool {
	one, rises, told := true, false, false
	for _, c := range families {
		one, rises, told = one && c.bySize != nil, rises || c.rises(), told || c.own
	}
	own := map[nccl.Cell]bool{}
	for f, c := range families {
		switch {
		case c.own:
			own[f] = !c.asked
		case told || !one:
			own[f] = c.rises()
		default:
			own[f] = rises
		}
	}
	return own
}

// dropDefaultCounts drops the channel counts of families that were measured with NCCL's
// own. Nobody asked for these counts, and keeping them would split one curve into many.
// Where some of a family's counts were asked for, the others are repetitions of these.
func (vp *variantPool) dropDefaultCounts() *variantPool {
	families := map[nccl.Cell]*counts{}
	for l := range vp.points {
		if l.byDefault() {
			continue
		}
		c := families[l.Cell]
		if c == nil {
			c = &counts{bySize: map[uint64]int{}}
			families[l.Cell] = c
		}
		own := l.by == bench.SelectionOwnChannels
		c.own, c.asked = c.own || own, c.asked || !own && l.Channels > 0
		if at, ok := c.bySize[l.bytes]; ok && at != l.Channels {
			c.bySize = nil
		} else if c.bySize != nil {
			c.bySize[l.bytes] = l.Channels
		}
	}
	own := ownFamilies(families)
	without := &variantPool{vp.simulated, vp.readings, map[label][]reading{}, vp.asked}
	for l, all := range vp.points {
		if !l.byDefault() {
			l.by = bench.SelectionUnknown
			if own[l.Cell] && !vp.asked[l.Cell] {
				l.Channels = 0
			}
		}
		without.points[l] = append(without.points[l], all...)
	}
	return without
}
