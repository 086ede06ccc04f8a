package lint

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// ranges are ascending and neither overlap nor touch.
type ranges []nccl.Range

func (rs ranges) after(size uint64) int {
	i, _ := slices.BinarySearchFunc(rs, size, func(r nccl.Range, size uint64) int {
		if r.Max < size {
			return -1
		}
		return 1
	})
	return i
}

// at returns the range that holds a size.
func (rs ranges) at(size uint64) (nccl.Range, bool) {
	if i := rs.after(size); i < len(rs) && rs[i].Min <= size {
		return rs[i], true
	}
	return nccl.Range{}, false
}

// add joins r with all that it overlaps or touches.
func (rs *ranges) add(r nccl.Range) {
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
