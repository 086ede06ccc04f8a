package policy

import (
	"cmp"
	"math"
	"slices"
)

// area is what a rule covers that restricts both bytes and bytes per rank: which
// sizes these are depends on the number of ranks, which the rule leaves open.
type area struct {
	bytes, perRank Range
	rule           int32 // index into Policy.Rules; in a summary the first of several
}

func (a area) covers(bytes, perRank uint64) bool {
	return a.bytes.contains(bytes) && a.perRank.contains(perRank)
}

// areas finds the first rule whose area covers a call. levels[0] holds the areas
// themselves, so ordered that neighbours lie near each other; an element of a
// higher level is the smallest area around `fanOut` elements of the level below.
type areas struct{ levels [][]area }

const fanOut = 8

func newAreas(list []area) areas {
	list = slices.Clone(list)
	sortByMiddle(list, func(a area) Range { return a.bytes })
	// Strips of near sizes, each of them ordered by bytes per rank, so that a
	// group of neighbours is about as long as it is wide.
	strip := fanOut * int(math.Ceil(math.Sqrt(float64(len(list))/fanOut)))
	for s := range slices.Chunk(list, max(strip, 1)) {
		sortByMiddle(s, func(a area) Range { return a.perRank })
	}
	t := areas{levels: [][]area{list}}
	for below := list; len(below) > fanOut; {
		level := make([]area, 0, (len(below)+fanOut-1)/fanOut)
		for group := range slices.Chunk(below, fanOut) {
			around := group[0]
			for _, a := range group[1:] {
				around.bytes = around.bytes.around(a.bytes)
				around.perRank = around.perRank.around(a.perRank)
				around.rule = min(around.rule, a.rule)
			}
			level = append(level, around)
		}
		t.levels = append(t.levels, level)
		below = level
	}
	return t
}

func sortByMiddle(list []area, of func(area) Range) {
	slices.SortFunc(list, func(a, b area) int { return cmp.Compare(of(a).middle(), of(b).middle()) })
}

func (r Range) middle() uint64       { return r.Min/2 + r.Max/2 }
func (r Range) around(o Range) Range { return Range{min(r.Min, o.Min), max(r.Max, o.Max)} }

// first returns the first rule that covers a call, or -1.
func (t areas) first(bytes, perRank uint64) int {
	top := len(t.levels) - 1
	best := t.search(top, 0, len(t.levels[top]), bytes, perRank, math.MaxInt32)
	if best == math.MaxInt32 {
		return -1
	}
	return int(best)
}

// search looks at the elements from..to of a level for a rule before best.
func (t areas) search(level, from, to int, bytes, perRank uint64, best int32) int32 {
	for i := from; i < to; i++ {
		a := &t.levels[level][i]
		switch {
		case a.rule >= best || !a.covers(bytes, perRank):
		case level == 0:
			best = a.rule
		default:
			below := i * fanOut
			best = t.search(level-1, below, min(below+fanOut, len(t.levels[level-1])), bytes, perRank, best)
		}
	}
	return best
}
