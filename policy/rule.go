package policy

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Rule is a row of a policy file, compiled.
type Rule struct {
	Line int // in the file, from 1
	Match
	Ask
}

// Ask is what a rule asks for: the cheapest available cell of a set. A set with one cell is a plain
// override, the full set keeps NCCL's choice.
type Ask struct {
	ChunkBytes uint64 // 0 leaves NCCL's chunk size
	Cells      CellSet
	Channels   int8 // 1..64; 0 leaves NCCL's count
}

// anyRule matches everything and asks for nothing.
var anyRule = func() Rule {
	r := Rule{
		Match: Match{Coll: anyColl, Bytes: nccl.EverySize, BytesPerRank: nccl.EverySize, NCCL: nccl.AnyRelease},
		Ask:   Ask{Cells: everyCell},
	}
	for n := range r.Numbers {
		r.Numbers[n] = anyInt
	}
	return r
}()

// appendEffect adds all that decisions depend on to what the digest is taken of. Numbers have one length and texts are
// quoted, so different rules never add the same.
func (r *Rule) appendEffect(text []byte) []byte {
	add := func(values ...uint64) {
		for _, n := range values {
			text = binary.LittleEndian.AppendUint64(text, n)
		}
	}
	add(uint64(r.Coll), r.Bytes.Min, r.Bytes.Max, r.BytesPerRank.Min, r.BytesPerRank.Max)
	for _, n := range r.Numbers {
		add(uint64(n))
	}
	add(uint64(r.Cells.algos), uint64(r.Cells.protos), uint64(r.Channels), r.ChunkBytes)
	add(uint64(r.NCCL.Min), uint64(r.NCCL.Max))
	condition := ""
	if r.When != nil {
		condition = r.When.String() + " " + runtime.GOARCH // processors round differently
	}
	return strconv.AppendQuote(strconv.AppendQuote(text, r.Name), condition)
}

// LeavesToNCCL reports whether the rule keeps NCCL's own algorithm and protocol.
func (a Ask) LeavesToNCCL() bool { return a.Cells == everyCell }

// Asks is what the rule asks for: ring/simple 24 ch, chunks of 256KiB.
func (a Ask) Asks() string {
	text := "NCCL's default"
	if !a.LeavesToNCCL() {
		text = a.Cells.String()
	}
	if a.Channels > 0 {
		text += fmt.Sprintf(" %d ch", a.Channels)
	}
	if a.ChunkBytes > 0 {
		text += ", chunks of " + nccl.FormatBytes(a.ChunkBytes)
	}
	return text
}

// CellSet is a set of cells of NCCL's cost table: the product of a set of algorithms and a set of
// protocols. Bit i stands for row or column i, so that the full set also holds algorithms that this
// code has no name for.
type CellSet struct {
	algos  uint16
	protos uint8
}

var everyCell = CellSet{math.MaxUint16, math.MaxUint8}

// Contains reports whether a cell of NCCL's cost table belongs to the set.
func (s CellSet) Contains(c nccl.Cell) bool {
	return s.algos>>c.Algo&1 != 0 && s.protos>>c.Proto&1 != 0
}

// cheapest returns the cheapest available cell of the set, the first of equals. If costs are not known, only a
// set of one cell has an answer.
func (s CellSet) cheapest(c nccl.Costs) (cell nccl.Cell, ok bool) {
	if c.AvailableOnly && !s.Single() {
		return nccl.NoCell, false
	}
	cell = c.Cheapest(s.Contains)
	return cell, cell.Known()
}

// Single reports whether the set is one cell.
func (s CellSet) Single() bool {
	return bits.OnesCount16(s.algos) == 1 && bits.OnesCount8(s.protos) == 1
}

// cell is that of a set with a single one, else NoCell.
func (s CellSet) cell() nccl.Cell {
	if !s.Single() {
		return nccl.NoCell
	}
	return nccl.Cell{Algo: nccl.Algo(bits.TrailingZeros16(s.algos)), Proto: nccl.Proto(bits.TrailingZeros8(s.protos))}
}

// String writes the set as files do: ring/ll, !tree/simple, any.
func (s CellSet) String() string {
	if s == everyCell {
		return "any"
	}
	return setText(s.algos, everyCell.algos, nccl.Algos) + "/" + setText(s.protos, everyCell.protos, nccl.Protos)
}

func setText[T ~int8, Set uint8 | uint16](set, every Set, known nccl.Names[T]) string {
	if set == every {
		return "any"
	}
	for v, name := range known.Known {
		switch set {
		case 1 << v:
			return name
		case every &^ (1 << v):
			return "!" + name
		}
	}
	return fmt.Sprintf("%#x", set)
}
