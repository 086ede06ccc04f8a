package bench

import (
	"math"
)

// bounds are the least and the greatest value that rounded numbers allow.
type bounds struct{ low, high float64 }

// busFactor returns busbw/algbw within the precision of the printed digits. ok is false where no row
// has both, or rows contradict each other.
func busFactor(rows []row) (f bounds, ok bool) {
	f = bounds{0, math.Inf(1)}
	for i := range rows {
		r := &rows[i]
		if r.AlgBW < 1 || math.IsNaN(r.BusBW) || math.IsNaN(r.AlgBW) {
			continue
		}
		// Columns have two decimals, and fewer once the number is wide.
		half := 0.006
		if max(r.AlgBW, r.BusBW) >= 1000 {
			half = 0.06
		}
		if max(r.AlgBW, r.BusBW) >= 10000 {
			half = 0.6
		}
		f.low = max(f.low, (r.BusBW-half)/(r.AlgBW+half))
		f.high = min(f.high, (r.BusBW+half)/(r.AlgBW-half))
		ok = true
	}
	return f, ok && f.low <= f.high
}

// ranksOf returns the only number of ranks that a factor allows, or 0.
func ranksOf(op operation, f bounds) int {
	var low, high float64
	switch op {
	case "allreduce":
		low, high = 2/(2-f.low), 2/(2-f.high)
	case "allgather", "reducescatter":
		low, high = 1/(1-f.low), 1/(1-f.high)
	default:
		return 0
	}
	low, high = math.Ceil(low), math.Floor(high)
	if low != high || low < 2 || low > 1<<20 {
		return 0
	}
	return int(low)
}

var elementSize = map[string]uint64{
	"int8": 1, "char": 1, "uint8": 1, "int32": 4, "int": 4, "uint32": 4, "int64": 8, "uint64": 8,
	"half": 2, "float": 4, "double": 8, "bfloat16": 2, "f8e4m3": 1, "f8e5m2": 1, "fp8_e4m3": 1, "fp8_e5m2": 1,
}

// parts returns size / (count x element), which is the number of ranks where
// each rank holds one part of the buffer and 1 where each holds all. 0: not known.
func parts(rows []row) int {
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
// if several operations would print the same.
func guess(rows []row) operation {
	if len(rows) == 0 {
		return ""
	}
	f, haveFactor := busFactor(rows)
	n := parts(rows)
	reduces, rooted := rows[0].RedOp != "", rows[0].root >= 0
	// The in-place half of alltoall and sendrecv is never checked.
	var outChecked, inChecked, inPlace, blankRedOp bool
	for i := range rows {
		blankRedOp = blankRedOp || rows[i].blankRedOp
		if rows[i].InPlace {
			inPlace = true
			inChecked = inChecked || rows[i].checked
		} else {
			outChecked = outChecked || rows[i].checked
		}
	}
	neverInPlace := outChecked && inPlace && !inChecked
	switch {
	case rooted && reduces:
		return "reduce"
	case rooted && n == 1:
		return "broadcast"
	case rooted:
		return "" // gather or scatter
	case haveFactor && f.low > 1:
		return "allreduce"
	case reduces && n > 1:
		return "reducescatter"
	case reduces && neverInPlace:
		return "sendrecv"
	case reduces && n == 1 && haveFactor && f.low <= 1 && f.high >= 1 && inChecked:
		return "allreduce" // of two ranks
	case reduces:
		return ""
	case n > 1 && (blankRedOp || neverInPlace):
		return "alltoall"
	case n > 1 && inChecked:
		return "allgather"
	case n > 1 && rows[0].noRedOpColumn:
		return "allgather" // before 2.13, when alltoall still had the column
	}
	return ""
}
