package policy

import (
	"fmt"
	"math/bits"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// What tools that look at rules, not at queries, want to know of them.

// Colls lists the collectives that the rule can match: all for a rule that names
// none, no one for an operation that no tuner is asked about.
func (r *Rule) Colls() []nccl.Coll {
	switch r.Coll {
	case anyColl:
		return nccl.AllColls()
	case collNeverAsked:
		return nil
	}
	return []nccl.Coll{r.Coll}
}

// BytesFor returns the sizes that the rule matches on a communicator of so many
// ranks, at least 1; ok is false where there are none.
func (r *Rule) BytesFor(ranks int) (sizes Range, ok bool) {
	sizes = r.BytesPerRank.timesRanks(uint64(ranks))
	sizes = Range{max(sizes.Min, r.Bytes.Min), min(sizes.Max, r.Bytes.Max)}
	return sizes, sizes.Min <= sizes.Max
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

// LimitsBytes reports whether the rule restricts sizes.
func (r *Rule) LimitsBytes() bool { return r.Bytes != everySize }

// LimitsBytesPerRank reports whether it restricts sizes per rank.
func (r *Rule) LimitsBytesPerRank() bool { return r.BytesPerRank != everySize }

// LeavesToNCCL reports whether the rule keeps NCCL's own algorithm and protocol.
func (r *Rule) LeavesToNCCL() bool { return r.Cells == everyCell }

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

// Asks is what the rule asks for: ring/simple, 24 channels, chunks of 256KiB.
func (r *Rule) Asks() string {
	text := "NCCL's own choice"
	if !r.LeavesToNCCL() {
		text = r.Cells.String()
	}
	if r.Channels > 0 {
		text += fmt.Sprintf(", %d channels", r.Channels)
	}
	if r.ChunkBytes > 0 {
		text += ", chunks of " + nccl.FormatBytes(r.ChunkBytes)
	}
	return text
}
