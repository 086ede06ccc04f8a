package policy

import (
	"iter"
	"math"
	"math/bits"
	"slices"
	"sort"
	"sync"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// place is what a communicator and a collective have to be for a rule to match.
type place struct {
	coll                       Coll
	nodes, ranks, ranksPerNode int32
}

// call is what else a call has to be.
type call struct {
	pipeOps int32
	regBuff int8
}

// layer holds the rules of one place and call that ask for the same cells. Of
// those that cover a size only the first in the file can ever decide, so a layer
// is a list of ranges that do not overlap, and a size is found by binary search.
// There are as many layers to search as there are ways to name cells, a few
// dozen at the most, however many rules there are.
type layer struct {
	cells   CellSet
	perRank bool   // spans count bytes per rank, not bytes
	spans   []span // ascending
	first   int32  // the first of their rules
}

type span struct {
	Range
	rule int32 // index into Policy.Rules
}

// index is the rules arranged by what they match.
type index map[place]map[call][]layer

// addition is one rule on its way into an index.
type addition struct {
	span
	perRank bool
}

// placed returns the rule at index i as an addition. A rule that restricts both
// bytes and bytes per rank has a range of bytes only once the number of ranks is
// known; ranks is anyInt where it is not, and ok then tells whether it matters.
func placed(r *Rule, i int, ranks int64) (a addition, ok bool) {
	switch {
	case r.BytesPerRank == everySize:
		return addition{span{r.Bytes, int32(i)}, false}, true
	case r.Bytes == everySize:
		return addition{span{r.BytesPerRank, int32(i)}, true}, true
	case ranks == anyInt:
		return addition{}, false
	}
	both := r.BytesPerRank.timesRanks(uint64(ranks))
	both.Min, both.Max = max(both.Min, r.Bytes.Min), min(both.Max, r.Bytes.Max)
	return addition{span{both, int32(i)}, false}, true
}

// timesRanks turns a range of bytes per rank, rounded down, into one of bytes.
func (r Range) timesRanks(ranks uint64) Range {
	high, least := bits.Mul64(r.Min, ranks)
	if high > 0 {
		return Range{Inf, 0} // empty: no collective is that large
	}
	most := uint64(Inf)
	if high, low := bits.Mul64(r.Max, ranks); high == 0 && low <= Inf-(ranks-1) {
		most = low + ranks - 1
	}
	return Range{least, most}
}

// buildIndex arranges the rules that pick returns an addition for.
func buildIndex(rules []Rule, pick func(r *Rule, i int) (addition, bool)) index {
	type layerKey struct {
		cells   CellSet
		perRank bool
	}
	spans := map[place]map[call]map[layerKey][]span{}
	add := func(at place, r *Rule, a addition) {
		if spans[at] == nil {
			spans[at] = map[call]map[layerKey][]span{}
		}
		c := call{r.PipeOps, r.RegBuff}
		if spans[at][c] == nil {
			spans[at][c] = map[layerKey][]span{}
		}
		key := layerKey{r.Cells, a.perRank}
		spans[at][c][key] = append(spans[at][c][key], a.span)
	}
	for i := range rules {
		r := &rules[i]
		a, ok := pick(r, i)
		if !ok || a.Min > a.Max {
			continue
		}
		at := place{r.Coll, r.Nodes, r.Ranks, r.RanksPerNode}
		switch r.Coll {
		case collNeverAsked:
		case anyColl:
			for at.coll = range NumColls {
				add(at, r, a)
			}
		default:
			add(at, r, a)
		}
	}
	ix := make(index, len(spans))
	for at, byCall := range spans {
		ix[at] = make(map[call][]layer, len(byCall))
		for c, byKey := range byCall {
			for key, s := range byKey {
				ix[at][c] = append(ix[at][c], layer{key.cells, key.perRank, firstWins(s), s[0].rule})
			}
		}
	}
	return ix
}

// borders returns where, in ascending order, a span begins or the sizes beyond it.
func borders(spans []span) []uint64 {
	starts := make([]uint64, 0, 2*len(spans))
	for _, s := range spans {
		starts = append(starts, s.Min)
		if s.Max != Inf {
			starts = append(starts, s.Max+1)
		}
	}
	slices.Sort(starts)
	return slices.Compact(starts)
}

// firstWins cuts spans, which may overlap, into spans that do not: each size
// belongs to the first of them that covers it.
func firstWins(spans []span) []span {
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

// Comm is what a decision may know of a communicator: only what all of its ranks
// find alike.
type Comm struct {
	Nodes, Ranks int // at least 1
	// NVLDomains is how many NVLink domains NCCL says that the communicator spans;
	// 0 where it does not, as before ABI v5.
	NVLDomains int
	Topo       *topo.Summary // of the machine; nil: not known. It must not change
}

// View is a Policy as one communicator sees it.
type View struct {
	policy *Policy
	comm   Comm
	byCall [NumColls][]map[call][]layer
	when   *whenView // nil without conditions
}

// For narrows the policy to a communicator. It costs a few map look-ups, however many rules there are. (Rules that
// restrict both bytes and bytes per rank, for any number of ranks, are compiled
// the first time that a number of ranks comes up.)
func (p *Policy) For(c Comm) *View {
	v := &View{policy: p, comm: c}
	perNode := int32(anyInt)
	if c.Ranks%c.Nodes == 0 {
		perNode = inRange(c.Ranks / c.Nodes)
	}
	v.when = newWhenView(p.conditional.forComm(p.Rules, c))
	for _, ix := range []index{p.index, p.open.forRanks(p.Rules, c.Ranks), v.when.always()} {
		if len(ix) == 0 {
			continue
		}
		for coll := range v.byCall {
			for _, n := range either(inRange(c.Nodes)) {
				for _, r := range either(inRange(c.Ranks)) {
					for _, rpn := range either(perNode) {
						if byCall := ix[place{Coll(coll), n, r, rpn}]; byCall != nil {
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

// rule returns the index of the layer's rule for a size, or -1.
func (l *layer) rule(size uint64) int {
	i := sort.Search(len(l.spans), func(i int) bool { return l.spans[i].Max >= size })
	if i == len(l.spans) || !l.spans[i].contains(size) {
		return -1
	}
	return int(l.spans[i].rule)
}

// openRules are the rules that only a number of ranks turns into ranges of bytes.
type openRules struct {
	any     bool
	mu      sync.Mutex
	byRanks map[int]index
}

// maxOpenIndexes bounds the memory of a process with communicators of very many
// sizes.
const maxOpenIndexes = 64

func (o *openRules) forRanks(rules []Rule, ranks int) index {
	if !o.any {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if ix, ok := o.byRanks[ranks]; ok {
		return ix
	}
	ix := buildIndex(rules, func(r *Rule, i int) (addition, bool) {
		if _, closed := placed(r, i, int64(r.Ranks)); closed || r.When != nil {
			return addition{}, false
		}
		return placed(r, i, int64(ranks))
	})
	if len(o.byRanks) >= maxOpenIndexes {
		clear(o.byRanks)
	}
	o.byRanks[ranks] = ix
	return ix
}
