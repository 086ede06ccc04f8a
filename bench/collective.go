package bench

import (
	"math"
	"slices"
)

// factors are the least and the greatest value that rounded numbers allow.
type factors struct{ low, high float64 }

// busFactor returns busbw/algbw within the precision of the printed digits. ok is false where no row
// has both, or rows contradict each other.
func busFactor(rows []row) (f factors, ok bool) {
	f = factors{0, math.Inf(1)}
	for i := range rows {
		r := &rows[i]
		if r.AlgBW < 1 {
			continue
		}
		off := 0.011 // one in the last of two decimals, as where they were cut; fewer once the number is wide
		for width := max(r.AlgBW, r.BusBW); width >= 1000; width /= 10 {
			off *= 10
		}
		f.low = max(f.low, (r.BusBW-off)/(r.AlgBW+off))
		f.high = min(f.high, (r.BusBW+off)/(r.AlgBW-off))
		ok = true
	}
	return f, ok && f.low <= f.high
}

// ranksOf returns the numbers of ranks that a factor allows; 0: it tells nothing.
func ranksOf(op operation, f factors) (least, most int) {
	const many = 1 << 20
	var low, high float64
	switch op {
	case "allreduce":
		low, high = 2/(2-f.low), 2/(2-f.high)
	case "allgather", "reducescatter":
		low, high = 1/(1-f.low), 1/(1-f.high)
	}
	if high < low { // a greater number has the same factor
		high = many
	}
	low, high = math.Ceil(low), math.Floor(min(high, many))
	if low > high || low < 1 {
		return 0, 0
	}
	return int(low), int(high)
}

// partsOf returns size / (count x element), which is the number of ranks where
// each rank holds one part of the buffer and 1 where each holds all. 0: not known.
func partsOf(rows []row) int {
	for i := range rows {
		r := &rows[i]
		if element := elementSize[r.DType]; element != 0 && r.count > 0 && r.Bytes > 0 &&
			r.Bytes%(r.count*element) == 0 {
			return int(r.Bytes / (r.count * element))
		}
	}
	return 0
}

// guess finds the operation from the rows alone, because logs before nccl-tests 2.17.6 do not name it. It returns ""
// if several operations would print the same. Only alltoall and sendrecv never check their results in place.
func (u *testRun) guess() operation {
	if len(u.rows) == 0 {
		return ""
	}
	f, haveFactor := busFactor(u.rows)
	reduces, rooted, n := u.rows[0].RedOp != "", u.rows[0].root >= 0, partsOf(u.rows)
	checked := slices.ContainsFunc(u.rows, func(r row) bool { return r.InPlace && r.checked })
	switch {
	case rooted && reduces:
		return "reduce"
	case rooted && n == 1:
		return "broadcast"
	case rooted: // gather or scatter
	case haveFactor && f.low > 1, haveFactor && reduces && n == 1 && f.low <= 1 && f.high >= 1 && checked: // two ranks
		return "allreduce"
	case reduces && n > 1:
		return "reducescatter"
	case !reduces && n > 1 && (checked && !u.rows[0].blankRedOp ||
		u.layout.known && !slices.Contains(u.layout.names, "redop")): // before 2.13
		return "allgather"
	}
	return ""
}
