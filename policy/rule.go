package policy

import (
	"math"
	"math/bits"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// anyInt in a rule's Nodes, Ranks, RanksPerNode, PipeOps or RegBuff matches
// every value.
const anyInt = -1

const (
	// anyColl in a rule means each of the collectives that tuners are asked about.
	anyColl nccl.Coll = -1
	// collNeverAsked stands for operations that RCCL's and newer NCCL's files
	// name but that no tuner is ever asked about. Their rows are checked like
	// all others and then have no effect.
	collNeverAsked nccl.Coll = -2
)

// Range is an inclusive range of bytes.
type Range struct{ Min, Max uint64 }

var everySize = Range{0, nccl.Inf}

func (r Range) contains(n uint64) bool { return r.Min <= n && n <= r.Max }

// Rule is one row of a policy file.
type Rule struct {
	Line int // in the file, from 1

	// What the rule matches. Only values that are equal on every rank can be
	// named here, with one exception: RegBuff is what the local rank found, and
	// NCCL may find it different elsewhere. It is there because NCCL's example
	// format has it.
	Coll         nccl.Coll
	Bytes        Range
	BytesPerRank Range // of Bytes / Ranks, rounded down
	Nodes        int32
	Ranks        int32
	RanksPerNode int32 // Ranks / Nodes; no match where that is not whole
	PipeOps      int32
	RegBuff      int8
	When         *Condition // nil: always

	// What it asks for: the cheapest available cell of this set. A set with one
	// cell is a plain override, the full set keeps NCCL's own choice.
	Cells      CellSet
	Channels   int8   // 1..64; 0 leaves NCCL's count
	ChunkBytes uint64 // 0 leaves NCCL's chunk size
}

// IsFor reports whether the rule can match a collective on a communicator of that
// many nodes and ranks, both at least 1, its condition aside.
func (r *Rule) IsFor(coll nccl.Coll, nodes, ranks int) bool {
	return r.isForColl(coll) && r.isForComm(nodes, ranks)
}

func (r *Rule) isForColl(coll nccl.Coll) bool { return r.Coll == anyColl || r.Coll == coll }

func (r *Rule) isForComm(nodes, ranks int) bool {
	return is(r.Nodes, nodes) && is(r.Ranks, ranks) && r.isForPerNode(nodes, ranks)
}

func (r *Rule) isForPerNode(nodes, ranks int) bool {
	return r.RanksPerNode == anyInt || ranks%nodes == 0 && is(r.RanksPerNode, ranks/nodes)
}

// is reports whether a column matches.
func is(want int32, got int) bool { return want == anyInt || int(want) == got }

// CellSet is a set of cells of NCCL's cost table: the product of a set of
// algorithms and a set of protocols. Bit i stands for row or column i, so that
// the full set also holds algorithms that this code has no name for.
type CellSet struct {
	algos  uint16
	protos uint8
}

var everyCell = CellSet{math.MaxUint16, math.MaxUint8}

// Contains reports whether a cell of NCCL's cost table belongs to the set.
func (s CellSet) Contains(a nccl.Algo, p nccl.Proto) bool {
	return s.algos>>a&1 != 0 && s.protos>>p&1 != 0
}

// cheapest returns the cheapest available cell of the set, the first of equals. Where
// costs are unknown there is no telling which of several is the cheapest, and only a
// set of one cell has an answer.
func (s CellSet) cheapest(c nccl.Costs) (a nccl.Algo, p nccl.Proto, ok bool) {
	if c.AvailableOnly && !s.single() {
		return -1, -1, false
	}
	a, p = c.Cheapest(s.Contains)
	return a, p, a >= 0
}

// single reports whether the set is one cell.
func (s CellSet) single() bool {
	return bits.OnesCount16(s.algos) == 1 && bits.OnesCount8(s.protos) == 1
}
