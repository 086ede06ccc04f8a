package policy

import (
	"iter"
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// place is what a communicator and a collective have to be for a rule to match.
type place struct {
	coll                       nccl.Coll
	nodes, ranks, ranksPerNode int32
}

// call is what else a call has to be.
type call struct {
	pipeOps int32
	regBuff int8
}

// layer holds the rules of one place and call that ask for the same cells and
// restrict the same. Of those that cover a size only the first in the file can
// ever decide, so a layer is a list of ranges that do not overlap, and a size is
// found by binary search. There are as many layers to search as there are ways to
// name cells, a few dozen at the most, however many rules there are.
type layer struct {
	layerKey
	spans []span // ascending; of bytes or of bytes per rank
	areas areas  // instead of spans, where both are restricted
	first int32  // the first of their rules
}

type layerKey struct {
	cells CellSet
	by    restriction
}

// restriction tells what the sizes of a rule are.
type restriction int8

const (
	byBytes restriction = iota
	byPerRank
	byBoth
)

type span struct {
	Range
	rule int32 // index into Policy.Rules
}

// index is the rules arranged by what they match.
type index map[place]map[call][]layer

// placed returns what a rule covers, and which of the two ranges tell it. One that
// names the number of ranks and restricts both has a range of bytes.
func placed(r *Rule, i int) (restriction, area) {
	a := area{r.Bytes, r.BytesPerRank, int32(i)}
	switch {
	case r.BytesPerRank == everySize:
		return byBytes, a
	case r.Bytes == everySize:
		return byPerRank, a
	case r.Ranks == anyInt:
		return byBoth, a
	}
	a.bytes = r.bytesOn(uint64(r.Ranks))
	return byBytes, a
}

// bytesOn returns the bytes that the rule's two ranges leave on so many ranks.
func (r *Rule) bytesOn(ranks uint64) Range {
	both := r.BytesPerRank.timesRanks(ranks)
	return Range{max(both.Min, r.Bytes.Min), min(both.Max, r.Bytes.Max)}
}

// timesRanks turns a range of bytes per rank, rounded down, into one of bytes.
func (r Range) timesRanks(ranks uint64) Range {
	high, least := bits.Mul64(r.Min, ranks)
	if high > 0 {
		return Range{nccl.Inf, 0} // empty: no collective is that large
	}
	most := uint64(nccl.Inf)
	if high, low := bits.Mul64(r.Max, ranks); high == 0 && low <= nccl.Inf-(ranks-1) {
		most = low + ranks - 1
	}
	return Range{least, most}
}

// buildIndex arranges the rules that are of it.
func buildIndex(rules []Rule, isOfIt func(i int) bool) index {
	type layerAt struct {
		place
		call
		layerKey
	}
	covered := map[layerAt]*[]area{}
	var latest layerAt // rows that go together mostly stand together
	var list *[]area
	add := func(at layerAt, a area) {
		if list == nil || at != latest {
			if list = covered[at]; list == nil {
				list = new([]area)
				covered[at] = list
			}
			latest = at
		}
		*list = append(*list, a)
	}
	for i := range rules {
		r := &rules[i]
		by, a := placed(r, i)
		if a.bytes.Min > a.bytes.Max || !isOfIt(i) {
			continue
		}
		at := layerAt{place{r.Coll, r.Nodes, r.Ranks, r.RanksPerNode}, call{r.PipeOps, r.RegBuff}, layerKey{r.Cells, by}}
		switch r.Coll {
		case collNeverAsked:
		case anyColl:
			for at.coll = range nccl.Coll(nccl.NumColls) {
				add(at, a)
			}
		default:
			add(at, a)
		}
	}
	ix := index{}
	for at, list := range covered {
		if ix[at.place] == nil {
			ix[at.place] = map[call][]layer{}
		}
		ix[at.place][at.call] = append(ix[at.place][at.call], newLayer(at.layerKey, *list))
	}
	return ix
}

// newLayer takes rules in the order of the file.
func newLayer(key layerKey, list []area) layer {
	l := layer{layerKey: key, first: list[0].rule}
	if key.by == byBoth {
		l.areas = newAreas(list)
		return l
	}
	spans := make([]span, len(list))
	for i, a := range list {
		spans[i] = span{a.bytes, a.rule}
		if key.by == byPerRank {
			spans[i].Range = a.perRank
		}
	}
	l.spans = firstWins(spans)
	return l
}

// firstWins cuts spans, which may overlap, into spans that do not: each size
// belongs to the first of them that covers it.
func firstWins(spans []span) []span {
	if len(spans) == 1 {
		return spans
	}
	starts := borders(spans)

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
		end := uint64(nccl.Inf)
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

// borders returns where, in ascending order, a span begins or the sizes beyond it.
func borders(spans []span) []uint64 {
	starts := make([]uint64, 0, 2*len(spans))
	for _, s := range spans {
		starts = append(starts, s.Min)
		if s.Max != nccl.Inf {
			starts = append(starts, s.Max+1)
		}
	}
	slices.Sort(starts)
	return slices.Compact(starts)
}

// Comm is what a decision may know of a communicator: only what all of its ranks
// find alike.
type Comm struct {
	Nodes, Ranks int // at least 1
	// NVLDomains is how many NVLink domains NCCL says that the communicator spans;
	// 0 where it does not, as before ABI v5.
	NVLDomains int
	// UncheckedAllGather says that NCCL may use the channel count of an AllGather without
	// a check against what the communicator has: then it is left to NCCL.
	UncheckedAllGather bool
	Topo               *topo.Summary // of the machine; nil: not known. It must not change
}

// View is a Policy as one communicator sees it.
type View struct {
	policy *Policy
	comm   Comm
	byCall [nccl.NumColls][]map[call][]layer
	when   *whenView // nil without conditions
}

// For narrows the policy to a communicator. It costs a few map look-ups, however
// many rules there are. (Rules with conditions are compiled the first time that a
// kind of communicator comes up.)
func (p *Policy) For(c Comm) *View {
	v := &View{policy: p, comm: c, when: newWhenView(p.conditional.forComm(p.Rules, c))}
	perNode := int32(anyInt)
	if c.Ranks%c.Nodes == 0 {
		perNode = inRange(c.Ranks / c.Nodes)
	}
	for _, ix := range []index{p.index, v.when.always()} {
		if len(ix) == 0 {
			continue
		}
		for coll := range v.byCall {
			for _, n := range either(inRange(c.Nodes)) {
				for _, r := range either(inRange(c.Ranks)) {
					for _, rpn := range either(perNode) {
						if byCall := ix[place{nccl.Coll(coll), n, r, rpn}]; byCall != nil {
							v.byCall[coll] = append(v.byCall[coll], byCall)
						}
					}
				}
			}
		}
	}
	return v
}

// inRange keeps a number that no rule can name from wrapping around to one that
// a rule does.
func inRange(n int) int32 { return int32(min(n, math.MaxInt32)) }

// either returns the two values of a rule that match n: any, and n itself.
func either(n int32) []int32 {
	if n == anyInt {
		return []int32{anyInt}
	}
	return []int32{anyInt, n}
}

// Empty reports that no rule can ever decide anything for this communicator.
func (v *View) Empty() bool {
	return v.when.empty() && !slices.ContainsFunc(v.byCall[:], func(byCall []map[call][]layer) bool { return len(byCall) > 0 })
}

// calls yields what a rule can say of the call and match it.
func (q *Query) calls() iter.Seq[call] {
	calls := [...]call{{anyInt, anyInt}, {int32(q.PipeOps), anyInt}, {anyInt, int8(q.RegBuff)}, {int32(q.PipeOps), int8(q.RegBuff)}}
	return func(yield func(call) bool) {
		for i, c := range calls {
			if (i == 0 || !slices.Contains(calls[:i], c)) && !yield(c) {
				return
			}
		}
	}
}

// layers yields the layers that match the query, sizes aside.
func (v *View) layers(q *Query) iter.Seq[*layer] {
	return func(yield func(*layer) bool) {
		for _, byCall := range v.byCall[q.Coll] {
			for c := range q.calls() {
				layers := byCall[c]
				for j := range layers {
					if !yield(&layers[j]) {
						return
					}
				}
			}
		}
	}
}

// rule returns the index of the layer's rule for a call, or -1.
func (l *layer) rule(bytes, perRank uint64) int {
	size := bytes
	switch l.by {
	case byPerRank:
		size = perRank
	case byBoth:
		return l.areas.first(bytes, perRank)
	}
	i := sort.Search(len(l.spans), func(i int) bool { return l.spans[i].Max >= size })
	if i == len(l.spans) || !l.spans[i].contains(size) {
		return -1
	}
	return int(l.spans[i].rule)
}
