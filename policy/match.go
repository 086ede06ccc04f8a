package policy

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/when"
)

// Match is what a rule matches. All values are equal on every rank, with one exception: each rank finds
// RegBuff by itself, and ranks may differ. It is here because NCCL's example format has it.
type Match struct {
	Bytes        nccl.Range
	BytesPerRank nccl.Range        // of Bytes / Ranks, rounded down
	Numbers      [NumNumbers]int32 // -1: any
	NCCL         nccl.Releases
	Name         string // of the communicator; ends in * where its beginning is enough; "": any
	Coll         nccl.Coll
	When         *when.Condition // nil: always
}

// Number is a column of whole numbers that a rule may want of a communicator or, from PipeOps on, of a call.
type Number int8

const (
	Nodes Number = iota
	Ranks
	RanksPerNode // never matches a communicator whose nodes differ in it
	PipeOps
	RegBuff
	NumNumbers
)

// OfCall is the first number that calls of one communicator may differ in.
const OfCall = PipeOps

const maxNumber = 1 << 30

var numbers = [NumNumbers]struct {
	name        string
	least, most int64                 // that a file may name
	of          func(Comm, Query) int // what a call on a communicator has
}{
	Nodes:        {"nodes", 1, maxNumber, func(c Comm, _ Query) int { return c.Nodes }},
	Ranks:        {"ranks", 1, maxNumber, func(c Comm, _ Query) int { return c.Ranks }},
	RanksPerNode: {"ranks_per_node", 1, maxNumber, func(c Comm, _ Query) int { return perNode(c) }},
	PipeOps:      {"pipe_ops", 0, maxNumber, func(_ Comm, q Query) int { return q.PipeOps }},
	RegBuff:      {"reg_buff", 0, 1, func(_ Comm, q Query) int { return q.RegBuff }},
}

// numbersOf returns what a call on a communicator has of each number.
func numbersOf(c Comm, q Query) (has [NumNumbers]int32) {
	for n := range numbers {
		has[n] = int32(numbers[n].of(c, q))
	}
	return has
}

// String returns the column's name.
func (n Number) String() string { return numbers[n].name }

const (
	// anyInt in Match.Numbers matches every value.
	anyInt = -1
	// uneven is what a communicator without a whole number of ranks per node has. No rule wants it.
	uneven = -2

	// anyColl in a rule means each of the collectives that tuners are asked about.
	anyColl nccl.Coll = -1
	// collNeverAsked stands for operations that RCCL's and newer NCCL's files name but that no
	// tuner is ever asked about. Their rows are checked like all others and then have no effect.
	collNeverAsked nccl.Coll = -2
)

func perNode(c Comm) int {
	if c.Ranks%c.Nodes != 0 {
		return uneven
	}
	return c.Ranks / c.Nodes
}

// NameCovers reports whether what a row has as a name matches a communicator's name, or all that another row's matches:
// "" matches any, and dp* those that begin with dp.
func NameCovers(wider, name string) bool {
	begin, isBegin := strings.CutSuffix(wider, "*")
	return wider == "" || wider == name || isBegin && strings.HasPrefix(name, begin)
}

// IsFor reports whether the rule can match a collective on a communicator of at least 1 node and 1 rank, its
// condition aside.
func (m *Match) IsFor(coll nccl.Coll, c Comm) bool {
	has := numbersOf(c, Query{})
	return m.isForColl(coll) && m.isForNumbers(&has, 0, OfCall)
}

func (m *Match) isForColl(coll nccl.Coll) bool { return m.Coll == anyColl || m.Coll == coll }

// isForNumbers reports whether the numbers from one up to another, but not including it, match.
func (m *Match) isForNumbers(has *[NumNumbers]int32, from, to Number) bool {
	for n := from; n < to; n++ {
		if m.Numbers[n] != anyInt && m.Numbers[n] != has[n] {
			return false
		}
	}
	return true
}

// Completed fills in the third of nodes, ranks and ranks per node if two are known, in what a rule wants. Ranks per
// node are 0 where nodes differ in them: no rule wants that.
func Completed(wants [NumNumbers]int32) [NumNumbers]int32 {
	switch nodes, ranks, perNode := wants[Nodes], wants[Ranks], wants[RanksPerNode]; {
	case nodes > 0 && ranks > 0:
		wants[RanksPerNode] = 0
		if ranks%nodes == 0 {
			wants[RanksPerNode] = ranks / nodes
		}
	case nodes > 0 && perNode > 0 && int64(nodes)*int64(perNode) < 1<<31:
		wants[Ranks] = nodes * perNode
	case ranks > 0 && perNode > 0:
		wants[Nodes] = ranks / perNode
	}
	return wants
}

// misses lists the columns that do not match.
func (m *Match) misses(q *Query, c Comm) (misses []Miss) {
	has := numbersOf(c, *q)
	if !m.isForColl(q.Coll) || !q.Coll.IsAsked() {
		wants := m.Coll.String()
		switch m.Coll {
		case anyColl:
			wants = "any that tuners are asked about"
		case collNeverAsked:
			wants = "what tuners are never asked about"
		}
		misses = append(misses, Miss{Column: "collective", Wants: wants, Has: q.Coll.String()})
	}
	for n := range NumNumbers {
		if m.isForNumbers(&has, n, n+1) {
			continue
		}
		text := fmt.Sprint(has[n])
		if has[n] == uneven {
			text = strconv.FormatFloat(float64(c.Ranks)/float64(c.Nodes), 'g', 4, 64)
		}
		misses = append(misses, Miss{Column: n.String(), Wants: fmt.Sprint(m.Numbers[n]), Has: text})
	}
	if !m.NCCL.Contains(c.NCCL) {
		misses = append(misses, Miss{Column: "nccl", Wants: m.NCCL.String(), Has: c.NCCL.String()})
	}
	if !NameCovers(m.Name, c.Name) {
		misses = append(misses, Miss{Column: "comm_name", Wants: m.Name, Has: cmp.Or(c.Name, "known here")})
	}
	misses = missSize(misses, "size", m.Bytes, q.Bytes)
	return missSize(misses, "size_per_rank", m.BytesPerRank, q.Bytes/uint64(c.Ranks))
}

// Colls lists the collectives that the rule can match: all for a rule that names none, none for an operation
// that no tuner is asked about.
func (m *Match) Colls() []nccl.Coll {
	switch m.Coll {
	case anyColl:
		return nccl.AllColls()
	case collNeverAsked:
		return nil
	}
	return []nccl.Coll{m.Coll}
}

// BytesFor returns the sizes that the rule matches on a communicator of so many ranks, at least 1; ok is false
// if there are none.
func (m *Match) BytesFor(ranks int) (sizes nccl.Range, ok bool) {
	return timesRanks(m.BytesPerRank, uint64(ranks)).And(m.Bytes)
}

// timesRanks turns a range of bytes per rank, rounded down, into one of bytes.
func timesRanks(r nccl.Range, ranks uint64) nccl.Range {
	high, least := bits.Mul64(r.Min, ranks)
	if high > 0 {
		return nccl.Range{Min: nccl.Inf, Max: 0} // empty: no collective is that large
	}
	most := uint64(nccl.Inf)
	if high, low := bits.Mul64(r.Max, ranks); high == 0 && low <= nccl.Inf-(ranks-1) {
		most = low + ranks - 1
	}
	return nccl.Range{Min: least, Max: most}
}

func missSize(misses []Miss, column string, r nccl.Range, size uint64) []Miss {
	if r.Contains(size) {
		return misses
	}
	near := r.Min
	if size > r.Max {
		near = r.Max
	}
	octaves := math.Abs(math.Log2(float64(max(size, 1))) - math.Log2(float64(max(near, 1))))
	return append(misses, Miss{column, r.String(), nccl.FormatBytes(size), octaves})
}
