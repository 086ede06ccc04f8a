package policy

import "fmt"

// What tools that look at rules, not at queries, want to know of them.

// Colls lists the collectives that the rule can match: all for a rule that names
// none, no one for an operation that no tuner is asked about.
func (r *Rule) Colls() []Coll {
	switch r.Coll {
	case anyColl:
		all := make([]Coll, NumColls)
		for c := range all {
			all[c] = Coll(c)
		}
		return all
	case collNeverAsked:
		return nil
	}
	return []Coll{r.Coll}
}

// BytesFor returns the sizes that the rule matches on a communicator of so many
// ranks, at least 1; ok is false where there are none.
func (r *Rule) BytesFor(ranks int) (sizes Range, ok bool) {
	sizes = r.BytesPerRank.timesRanks(uint64(ranks))
	sizes = Range{max(sizes.Min, r.Bytes.Min), min(sizes.Max, r.Bytes.Max)}
	return sizes, sizes.Min <= sizes.Max
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
	return setText(s.algos, everyCell.algos, algoNames) + "/" + setText(s.protos, everyCell.protos, protoNames)
}

func setText[T ~int8, Set uint8 | uint16](set, every Set, known names[T]) string {
	if set == every {
		return "any"
	}
	for v, name := range known.canonical {
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
		text += ", chunks of " + FormatBytes(r.ChunkBytes)
	}
	return text
}

// Contains reports whether a cell of NCCL's cost table belongs to the set.
func (s CellSet) Contains(a Algo, p Proto) bool { return s.contains(int(a), int(p)) }
