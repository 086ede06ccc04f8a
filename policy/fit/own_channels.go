package fit

import (
	"maps"
	"slices"
)

// counts are the channel counts that a family was measured with.
type counts struct {
	own, asked bool                 // some were the library's choice, or asked for as far as is known
	bySize     map[uint64]cellLabel // the only count at each size; nil: there are several
}

// areOwn reports whether no count of a family was asked for. Where nothing tells, the
// library's choice is known by its rule: one count at each size, which changes with
// the size and does not fall as sizes grow (NCCL 2.30.7: topoGetAlgoInfo, src/enqueue.cc).
func (c *counts) areOwn() bool {
	switch {
	case c.own:
		return !c.asked
	case c.bySize == nil:
		return false
	}
	var inOrder []cellLabel
	for _, b := range slices.Sorted(maps.Keys(c.bySize)) {
		inOrder = append(inOrder, c.bySize[b])
	}
	return slices.IsSorted(inOrder) && inOrder[0] > 0 && inOrder[0] < inOrder[len(inOrder)-1]
}

// withoutOwnChannels leaves out the channel counts of families that were measured with
// the library's own: these are no configurations, and what a log tells of them must not
// part one curve into many. Where some of a family's counts were asked for, the others
// are repetitions of these.
func (vp *variantPool) withoutOwnChannels() *variantPool {
	families := map[cellLabel]*counts{}
	told := false
	for readings := range vp.cells {
		l := readings[0].cell
		if l.byDefault() {
			continue
		}
		c := families[l.family()]
		if c == nil {
			c = &counts{bySize: map[uint64]cellLabel{}}
			families[l.family()] = c
		}
		own := l&labelOwnChannels != 0
		c.own, c.asked, told = c.own || own, c.asked || !own && l.channels() > 0, told || own
		if at, ok := c.bySize[readings[0].bytes]; ok && at != l.channels() {
			c.bySize = nil
		} else if c.bySize != nil {
			c.bySize[readings[0].bytes] = l.channels()
		}
	}
	maps.DeleteFunc(families, func(_ cellLabel, c *counts) bool { return !c.areOwn() })
	if len(families) == 0 && !told {
		return vp
	}
	without := *vp
	without.readings, without.sorted = slices.Clone(vp.readings), false
	for i := range without.readings {
		l := &without.readings[i].cell
		if families[l.family()] != nil {
			*l &^= 0xff << 8
		}
		*l &^= labelOwnChannels
	}
	without.sort()
	return &without
}
