package lint

import (
	"fmt"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// key is what a row requires of a call besides its size and its condition. -1 is
// any value, as in policy.Rule.
type key struct {
	coll                  nccl.Coll
	nodes, ranks, perNode int32
	pipeOps               int32
	regBuff               int8
}

const (
	anyValue = -1
	anyColl  = nccl.Coll(anyValue)
	// uneven stands for the ranks per node of a communicator that has no whole number
	// of them. No row can ask for it.
	uneven = 0
)

// settled fills in what follows from the rest: of nodes, ranks and ranks per node,
// two make the third.
func (k key) settled() key {
	switch {
	case k.nodes > 0 && k.ranks > 0:
		k.perNode = uneven
		if k.ranks%k.nodes == 0 {
			k.perNode = k.ranks / k.nodes
		}
	case k.nodes > 0 && k.perNode > 0 && int64(k.nodes)*int64(k.perNode) < 1<<31:
		k.ranks = k.nodes * k.perNode
	case k.ranks > 0 && k.perNode > 0:
		k.nodes = k.ranks / k.perNode
	}
	return k
}

// implied lists the keys that match every call that k matches: k itself, and all
// with some of its values left open.
func (k key) implied() []key {
	all := []key{k}
	open := func(isSet bool, with func(*key)) {
		if !isSet {
			return
		}
		for _, other := range all[:len(all):len(all)] {
			with(&other)
			all = append(all, other)
		}
	}
	open(k.coll != anyColl, func(k *key) { k.coll = anyColl })
	open(k.nodes > 0, func(k *key) { k.nodes = anyValue })
	open(k.ranks > 0, func(k *key) { k.ranks = anyValue })
	open(k.perNode >= uneven, func(k *key) { k.perNode = anyValue })
	open(k.pipeOps >= 0, func(k *key) { k.pipeOps = anyValue })
	open(k.regBuff >= 0, func(k *key) { k.regBuff = anyValue })
	return all
}

// within reports whether every call that k matches is matched by wider.
func (k key) within(wider key) bool {
	is := func(w, n int32) bool { return w == anyValue || w == n }
	return is(int32(wider.coll), int32(k.coll)) && is(wider.nodes, k.nodes) && is(wider.ranks, k.ranks) && is(wider.perNode, k.perNode) &&
		is(wider.pipeOps, k.pipeOps) && is(int32(wider.regBuff), int32(k.regBuff))
}

// meets reports whether some call may match both.
func (k key) meets(o key) bool {
	both := func(a, b int32) bool { return a == anyValue || b == anyValue || a == b }
	return both(int32(k.coll), int32(o.coll)) && both(k.nodes, o.nodes) && both(k.ranks, o.ranks) && both(k.perNode, o.perNode) &&
		both(k.pipeOps, o.pipeOps) && both(int32(k.regBuff), int32(o.regBuff))
}

// String names the communicators and calls: "2 nodes, 16 ranks".
func (k key) String() string {
	var words []string
	add := func(n int32, one, many string) {
		switch {
		case n == 1:
			words = append(words, "1 "+one)
		case n > 1:
			words = append(words, fmt.Sprintf("%d %s", n, many))
		}
	}
	add(k.nodes, "node", "nodes")
	add(k.ranks, "rank", "ranks")
	if k.nodes < 0 || k.ranks < 0 {
		add(k.perNode, "rank per node", "ranks per node")
	}
	if k.pipeOps >= 0 {
		words = append(words, fmt.Sprintf("pipe_ops %d", k.pipeOps))
	}
	if k.regBuff >= 0 {
		words = append(words, fmt.Sprintf("reg_buff %d", k.regBuff))
	}
	if len(words) == 0 {
		return "any communicator"
	}
	return strings.Join(words, ", ")
}

// axis is what a row limits sizes by.
type axis int8

const (
	byBytes   axis = iota // bytes only; also where the number of ranks is known
	byPerRank             // bytes per rank only
	byBoth                // both, for any number of ranks
)

// String is what comes after a size on the axis.
func (a axis) String() string {
	if a == byPerRank {
		return " per rank"
	}
	return ""
}

// row is a policy's rule and what the checks need to know of it.
type row struct {
	*policy.Rule
	key
	axis  axis
	sizes policy.Range // on the axis; with byBoth of bytes
	cells cells
	never bool // an operation nobody asks about
	empty bool // matches no size
	when  bool // has a condition: it may match, or not
}

func newRow(r *policy.Rule, conditional bool) *row {
	w := &row{Rule: r, cells: cellsOf(r.Cells), when: conditional, sizes: r.Bytes}
	w.key = key{r.Coll, r.Nodes, r.Ranks, r.RanksPerNode, r.PipeOps, r.RegBuff}.settled()
	w.never = len(r.Colls()) == 0
	switch ranks := w.key.ranks; {
	case ranks > 0:
		var ok bool
		w.sizes, ok = r.BytesFor(int(ranks))
		w.empty = !ok
	case r.LimitsBytes() && r.LimitsBytesPerRank():
		w.axis = byBoth
		// More ranks only lower the bytes per rank.
		fewest := max(w.key.nodes, w.key.perNode, 2) // NCCL asks nothing about one rank
		w.empty = r.BytesPerRank.Min > r.Bytes.Max/uint64(fewest)
	case r.LimitsBytesPerRank():
		w.axis, w.sizes = byPerRank, r.BytesPerRank
	}
	return w
}

// active reports whether the row can decide anything at all.
func (r *row) active() bool { return !r.never && !r.empty }

// asksAlike reports whether two rows ask for the same.
func (r *row) asksAlike(o *row) bool {
	return r.Cells == o.Cells && r.Channels == o.Channels && r.ChunkBytes == o.ChunkBytes
}

func (r *row) collName() string {
	if r.key.coll == anyColl {
		return "any collective"
	}
	return r.key.coll.String()
}

func sizeText(r policy.Range) string {
	if r.Min == r.Max {
		return nccl.FormatBytes(r.Min)
	}
	return nccl.FormatBytes(r.Min) + " - " + nccl.FormatBytes(r.Max)
}

// both returns the sizes in both ranges, if there are any.
func both(a, b policy.Range) (policy.Range, bool) {
	r := policy.Range{Min: max(a.Min, b.Min), Max: min(a.Max, b.Max)}
	return r, r.Min <= r.Max
}

// holds reports whether all of inner is in outer.
func holds(outer, inner policy.Range) bool { return outer.Min <= inner.Min && inner.Max <= outer.Max }
