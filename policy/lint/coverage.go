package lint

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// coverage is what the rows seen so far match, for one key.
type coverage struct {
	byCells []covered
	mixed   []*row // rows that limit both bytes and bytes per rank
}

// covered is the union of the sizes of all rows with the same cells.
type covered struct {
	cells          cells
	bytes, perRank ranges
}

// ranges are ascending and neither overlap nor touch.
type ranges []policy.Range

func (rs ranges) after(size uint64) int {
	i, _ := slices.BinarySearchFunc(rs, size, func(r policy.Range, size uint64) int {
		if r.Max < size {
			return -1
		}
		return 1
	})
	return i
}

// at returns the range that holds a size.
func (rs ranges) at(size uint64) (policy.Range, bool) {
	if i := rs.after(size); i < len(rs) && rs[i].Min <= size {
		return rs[i], true
	}
	return policy.Range{}, false
}

// meet reports whether some size of r is in one of the ranges.
func (rs ranges) meet(r policy.Range) bool {
	i := rs.after(r.Min)
	return i < len(rs) && rs[i].Min <= r.Max
}

// add joins r with all that it overlaps or touches.
func (rs *ranges) add(r policy.Range) {
	first := 0
	if r.Min > 0 {
		first = rs.after(r.Min - 1)
	}
	last := first
	for ; last < len(*rs) && (r.Max == nccl.Inf || (*rs)[last].Min <= r.Max+1); last++ {
		r.Min, r.Max = min(r.Min, (*rs)[last].Min), max(r.Max, (*rs)[last].Max)
	}
	*rs = slices.Replace(*rs, first, last, r)
}

// covers is the coverage of all keys.
type covers map[key]*coverage

func (c covers) add(r *row) {
	at := c[r.key]
	if at == nil {
		at = &coverage{}
		c[r.key] = at
	}
	if r.axis == byBoth {
		at.mixed = append(at.mixed, r)
		return
	}
	i := slices.IndexFunc(at.byCells, func(s covered) bool { return s.cells == r.cells })
	if i < 0 {
		i = len(at.byCells)
		at.byCells = append(at.byCells, covered{cells: r.cells})
	}
	if r.axis == byPerRank {
		at.byCells[i].perRank.add(r.sizes)
	} else {
		at.byCells[i].bytes.add(r.sizes)
	}
}

// of returns what is covered wherever k matches, and apart from it the mixed rows of
// each key that k implies.
func (c covers) of(k key) (all []covered, mixed [][]*row) {
	for _, wider := range k.implied() {
		if at := c[wider]; at != nil {
			all = append(all, at.byCells...)
			if len(at.mixed) > 0 {
				mixed = append(mixed, at.mixed)
			}
		}
	}
	return all, mixed
}

// holdAll reports whether every size of r is covered for every cell asked for.
// ranks turns bytes into bytes per rank; 0 leaves the ranges per rank out.
func holdAll(all []covered, r policy.Range, ask cells, ranks uint64) bool {
	for at := r.Min; ; {
		have, end := cells(0), r.Max
		for i := range all {
			if s, ok := all[i].bytes.at(at); ok {
				have |= all[i].cells
				end = min(end, s.Max)
			}
			if ranks == 0 {
				continue
			}
			if s, ok := all[i].perRank.at(at / ranks); ok {
				have |= all[i].cells
				if s.Max < nccl.Inf/ranks {
					end = min(end, (s.Max+1)*ranks-1)
				}
			}
		}
		if ask&^have != 0 {
			return false
		}
		if end == r.Max {
			return true
		}
		at = end + 1
	}
}

// perRankOnly turns ranges of bytes per rank into what holdAll takes for bytes.
func perRankOnly(all []covered) []covered {
	out := make([]covered, 0, len(all))
	for _, c := range all {
		if len(c.perRank) > 0 {
			out = append(out, covered{cells: c.cells, bytes: c.perRank})
		}
	}
	return out
}
