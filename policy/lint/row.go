package lint

import (
	"fmt"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// key is what a row requires of a call besides its size and its condition. -1 is any value, as in
// policy.Match.
type key struct {
	coll  nccl.Coll
	wants [policy.NumNumbers]int32
	nccl  nccl.Releases
	name  string // of the communicator, as in policy.Match
}

const (
	anyValue = -1
	anyColl  = nccl.Coll(anyValue)
	// uneven stands for the ranks per node of a communicator that has no whole number of them. No
	// row can ask for it.
	uneven = 0
)

// keyOf is the key of a collective's calls on a communicator.
func keyOf(of model.Key) key {
	k := key{coll: of.Coll, nccl: nccl.AnyRelease}
	for n := range k.wants {
		k.wants[n] = anyValue
	}
	k.wants[policy.Nodes], k.wants[policy.Ranks] = int32(of.Nodes), int32(of.Ranks)
	return k.completed()
}

// completed fills in the third of nodes, ranks and ranks per node if two are known.
func (k key) completed() key {
	k.wants = policy.Completed(k.wants)
	return k
}

// within reports whether wider matches every call that k matches.
func (k key) within(wider key) bool {
	for n, value := range k.wants {
		if wider.wants[n] != anyValue && wider.wants[n] != value {
			return false
		}
	}
	return (wider.coll == anyColl || wider.coll == k.coll) && wider.nccl.Contains(k.nccl) &&
		policy.NameCovers(wider.name, k.name)
}

// ofAnyCall drops what may differ between calls of one communicator, and between communicators of one shape.
func (k key) ofAnyCall() key {
	k.nccl, k.name = nccl.AnyRelease, ""
	for n := policy.OfCall; n < policy.NumNumbers; n++ {
		k.wants[n] = anyValue
	}
	return k
}

// meets reports whether some call may match both.
func (k key) meets(o key) bool {
	for n, value := range k.wants {
		if value != anyValue && o.wants[n] != anyValue && value != o.wants[n] {
			return false
		}
	}
	return (k.coll == anyColl || o.coll == anyColl || k.coll == o.coll) && k.nccl.Overlaps(o.nccl) &&
		(policy.NameCovers(k.name, o.name) || policy.NameCovers(o.name, k.name))
}

// String names the communicators and calls: "2 nodes, 16 ranks".
func (k key) String() string {
	var words []string
	for n, value := range k.wants {
		switch n := policy.Number(n); {
		case value < 0 ||
			n == policy.RanksPerNode && (value == uneven || k.wants[policy.Nodes] > 0 && k.wants[policy.Ranks] > 0):
		case n == policy.Nodes:
			words = append(words, wording.Plural(int(value), "node"))
		case n == policy.Ranks:
			words = append(words, wording.Plural(int(value), "rank"))
		case n == policy.RanksPerNode:
			words = append(words, wording.Plural(int(value), "rank")+" per node")
		default:
			words = append(words, fmt.Sprintf("%s %d", n, value))
		}
	}
	if k.name != "" {
		words = append(words, "the name "+k.name)
	}
	if k.nccl != nccl.AnyRelease {
		words = append(words, "NCCL "+k.nccl.String())
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

// row is a row of the policy and what the checks need to know of it.
type row struct {
	*policy.Rule
	key
	axis  axis
	sizes nccl.Range // on the axis; with byBoth of bytes
	cells cells
	never bool // an operation nobody asks about
	empty bool // matches no size
	idle  bool // a duplicate, or never reached
}

func newRow(r *policy.Rule) *row {
	w := &row{Rule: r, cells: cellsOf(r.Cells), sizes: r.Bytes}
	w.key = key{r.Coll, r.Numbers, r.NCCL, r.Name}.completed()
	w.never = len(r.Colls()) == 0
	switch {
	case w.key.wants[policy.Ranks] > 0:
		var ok bool
		w.sizes, ok = r.BytesFor(int(w.key.wants[policy.Ranks]))
		w.empty = !ok
	case r.Bytes != nccl.EverySize && r.BytesPerRank != nccl.EverySize:
		w.axis = byBoth
		// More ranks only lower the bytes per rank. NCCL asks nothing about one rank.
		fewest := max(w.key.wants[policy.Nodes], w.key.wants[policy.RanksPerNode], 2)
		w.empty = r.BytesPerRank.Min > r.Bytes.Max/uint64(fewest)
	case r.BytesPerRank != nccl.EverySize:
		w.axis, w.sizes = byPerRank, r.BytesPerRank
	}
	return w
}

// sizesOn returns the row's sizes for the communicators of another row, on that row's axis. ok is false where these
// depend on the number of ranks.
func (r *row) sizesOn(of *row) (sizes nccl.Range, ok bool) {
	switch ranks := of.wants[policy.Ranks]; {
	case ranks > 0 && r.wants[policy.Ranks] == ranks:
		return r.sizes, !r.empty
	case ranks > 0:
		return r.BytesFor(int(ranks))
	case of.axis == byBytes && r.BytesPerRank == nccl.EverySize:
		return r.Bytes, true
	case of.axis == byPerRank && r.Bytes == nccl.EverySize:
		return r.BytesPerRank, true
	}
	return nccl.Range{}, false
}

// active reports whether the row can decide anything at all.
func (r *row) active() bool { return !r.never && !r.empty }

func (r *row) collName() string {
	if r.key.coll == anyColl {
		return "any collective"
	}
	return r.key.coll.String()
}

// cells is a set of cells of the cost table that NCCL has today, as bits.
type cells uint32

func cellBit(c nccl.Cell) cells { return 1 << (int(c.Algo)*nccl.NumProtos + int(c.Proto)) }

func cellsOf(set policy.CellSet) (c cells) { return cellsWhere(set.Contains) }

func cellsWhere(has func(nccl.Cell) bool) (c cells) {
	for a, p := range nccl.Cells {
		if cell := (nccl.Cell{Algo: a, Proto: p}); has(cell) {
			c |= cellBit(cell)
		}
	}
	return c
}

// all lists the cells of the set.
func (c cells) all() (list []nccl.Cell) {
	for a, p := range nccl.Cells {
		if cell := (nccl.Cell{Algo: a, Proto: p}); c&cellBit(cell) != 0 {
			list = append(list, cell)
		}
	}
	return list
}

// String names the algorithms, and the protocols where not all are in.
func (c cells) String() string {
	var all []string
	for a := range nccl.Algo(nccl.NumAlgos) {
		var protos []string
		for p := range nccl.Proto(nccl.NumProtos) {
			if c&cellBit(nccl.Cell{Algo: a, Proto: p}) != 0 {
				protos = append(protos, p.String())
			}
		}
		switch len(protos) {
		case 0:
		case nccl.NumProtos:
			all = append(all, a.String())
		default:
			all = append(all, a.String()+"/"+strings.Join(protos, "|"))
		}
	}
	return strings.Join(all, ", ")
}

// offered returns the cells that NCCL offers on some machine for a collective and the communicators
// of a key: what NCCL 2.21 to 2.31 model and allow at all, with the limits that follow from the
// numbers of nodes and ranks.
func offered(coll nccl.Coll, k key) cells {
	onNode := k.wants[policy.RanksPerNode] // the most ranks on a node, or fewer
	if onNode == uneven {
		onNode = k.wants[policy.Ranks]/k.wants[policy.Nodes] + 1
	}
	// PAT wants one rank on every node, or since 2.31 several nodes.
	onePerNode := onNode <= 1 &&
		(k.wants[policy.Nodes] < 0 || k.wants[policy.Ranks] < 0 || k.wants[policy.Nodes] == k.wants[policy.Ranks])
	fits := func(a nccl.Algo) bool {
		switch a {
		case nccl.AlgoCollNetDirect, nccl.AlgoCollNetChain:
			return onNode <= nccl.MaxDirectRanks
		case nccl.AlgoNVLS:
			return coll == nccl.CollAllReduce || onNode <= nccl.MaxNVLSRanks
		case nccl.AlgoNVLSTree:
			return k.wants[policy.Nodes] != 1
		case nccl.AlgoPAT:
			return onePerNode || k.wants[policy.Nodes] != 1 && k.nccl.Overlaps(since(nccl.PATOnManyRanks))
		}
		return true
	}
	return cellsWhere(func(c nccl.Cell) bool { return nccl.Offers(coll, c) && fits(c.Algo) })
}

// since holds the releases that have a change.
func since(c nccl.Change) nccl.Releases {
	return nccl.Releases{Min: nccl.Version(c), Max: nccl.AnyRelease.Max}
}

// offered is offered for all collectives that the row is for.
func (r *row) offered() (c cells) {
	for _, coll := range r.Colls() {
		c |= offered(coll, r.key)
	}
	return c
}
