package policy

import (
	"cmp"
	"slices"
	"sort"
)

// place is what a communicator and a collective have to be for a rule to match.
type place struct {
	coll                       Coll
	nodes, ranks, ranksPerNode int32
}

// layer holds the rules of one place that differ in nothing but their sizes.
// Of those that cover a size only the first in the file can ever decide, so a
// layer is a list of ranges that do not overlap, and looking up a size is one
// binary search however many rules there are.
type layer struct {
	layerKey
	spans []span // ascending
	first int32  // the first of their rules
}

type layerKey struct {
	pipeOps int32
	regBuff int8
	cells   CellSet
	perRank bool  // spans count bytes per rank
	within  Range // of bytes, for a rule that restricts both
}

type span struct {
	Range
	rule int32 // index into Policy.Rules
}

// index is the rules arranged by place.
type index map[place][]layer

func buildIndex(rules []Rule) index {
	spans := map[place]map[layerKey][]span{}
	add := func(at place, key layerKey, s span) {
		if spans[at] == nil {
			spans[at] = map[layerKey][]span{}
		}
		spans[at][key] = append(spans[at][key], s)
	}
	for i, r := range rules {
		key := layerKey{pipeOps: r.PipeOps, regBuff: r.RegBuff, cells: r.Cells, within: everySize}
		s := span{r.Bytes, int32(i)}
		if r.BytesPerRank != everySize {
			key.perRank, key.within, s.Range = true, r.Bytes, r.BytesPerRank
		}
		at := place{r.Coll, r.Nodes, r.Ranks, r.RanksPerNode}
		switch r.Coll {
		case collNeverAsked:
		case anyColl:
			for at.coll = range NumColls {
				add(at, key, s)
			}
		default:
			add(at, key, s)
		}
	}
	ix := make(index, len(spans))
	for at, byKey := range spans {
		for key, s := range byKey {
			ix[at] = append(ix[at], layer{key, firstWins(s), s[0].rule})
		}
	}
	return ix
}

// firstWins cuts spans, which may overlap, into spans that do not: each size
// belongs to the first of them that covers it.
func firstWins(spans []span) []span {
	starts := make([]uint64, 0, 2*len(spans))
	for _, s := range spans {
		starts = append(starts, s.Min)
		if s.Max != Inf {
			starts = append(starts, s.Max+1)
		}
	}
	slices.Sort(starts)
	starts = slices.Compact(starts)

	// Piece i runs from starts[i] to the next start. free[i] leads to the first
	// piece from i on that no span has taken; paths are halved as they are
	// walked, so that each piece is passed a near constant number of times.
	const nobody = -1
	owner := make([]int32, len(starts))
	free := make([]int32, len(starts)+1)
	for i := range free {
		free[i] = int32(i)
	}
	for i := range owner {
		owner[i] = nobody
	}
	nextFree := func(i int32) int32 {
		for free[i] != i {
			free[i] = free[free[i]]
			i = free[i]
		}
		return i
	}
	for _, s := range spans {
		at, _ := slices.BinarySearch(starts, s.Min)
		for i := nextFree(int32(at)); int(i) < len(starts) && starts[i] <= s.Max; i = nextFree(i) {
			owner[i] = s.rule
			free[i] = i + 1
		}
	}

	var pieces []span
	for i, rule := range owner {
		if rule == nobody {
			continue
		}
		end := uint64(Inf)
		if i+1 < len(starts) {
			end = starts[i+1] - 1
		}
		if n := len(pieces); n > 0 && pieces[n-1].rule == rule && pieces[n-1].Max+1 == starts[i] {
			pieces[n-1].Max = end
			continue
		}
		pieces = append(pieces, span{Range{starts[i], end}, rule})
	}
	return slices.Clip(pieces)
}

// View is a Policy as one communicator sees it.
type View struct {
	policy *Policy
	nodes  int
	ranks  int
	layers [NumColls][]layer
}

// For narrows the policy to communicators of this many nodes and ranks, both at
// least 1. It costs a few map look-ups, however many rules there are.
func (p *Policy) For(nodes, ranks int) *View {
	v := &View{policy: p, nodes: nodes, ranks: ranks}
	perNode := int32(anyInt)
	if ranks%nodes == 0 {
		perNode = int32(ranks / nodes)
	}
	for coll := range v.layers {
		for _, n := range either(int32(nodes)) {
			for _, r := range either(int32(ranks)) {
				for _, rpn := range either(perNode) {
					v.layers[coll] = append(v.layers[coll], p.index[place{Coll(coll), n, r, rpn}]...)
				}
			}
		}
		// In the order of their first rules a search can stop early.
		slices.SortFunc(v.layers[coll], func(a, b layer) int { return cmp.Compare(a.first, b.first) })
	}
	return v
}

// either returns the two values of a rule that match n: any, and n itself.
func either(n int32) []int32 {
	if n == anyInt {
		return []int32{anyInt}
	}
	return []int32{anyInt, n}
}

// Empty reports that no rule can ever decide anything for this communicator.
func (v *View) Empty() bool {
	for _, layers := range v.layers {
		if len(layers) > 0 {
			return false
		}
	}
	return true
}

// matches reports whether the layer's rules apply to the query, sizes aside.
func (l *layer) matches(q *Query) bool {
	return (l.pipeOps == anyInt || int(l.pipeOps) == q.PipeOps) &&
		(l.regBuff == anyInt || int(l.regBuff) == q.RegBuff) &&
		l.within.contains(q.Bytes)
}

// rule returns the index of the layer's rule for a size, or -1.
func (l *layer) rule(size uint64) int {
	i := sort.Search(len(l.spans), func(i int) bool { return l.spans[i].Max >= size })
	if i == len(l.spans) || !l.spans[i].contains(size) {
		return -1
	}
	return int(l.spans[i].rule)
}
