package nccl

// Range is an inclusive range of bytes.
type Range struct {
	Min uint64 `json:"min_bytes"`
	Max uint64 `json:"max_bytes"`
}

// EverySize is the range without limits.
var EverySize = Range{Max: Inf}

// Contains reports whether a size is in the range.
func (r Range) Contains(n uint64) bool { return r.Min <= n && n <= r.Max }

// And returns the sizes in both ranges, if there are any.
func (r Range) And(o Range) (Range, bool) {
	r = Range{Min: max(r.Min, o.Min), Max: min(r.Max, o.Max)}
	return r, r.Min <= r.Max
}

// Holds reports whether all of another range is in this one.
func (r Range) Holds(o Range) bool { return r.Min <= o.Min && o.Max <= r.Max }

// String writes a range as files do: 64KiB - inf, or 64KiB for that size alone.
func (r Range) String() string {
	if r.Min == r.Max {
		return FormatBytes(r.Min)
	}
	return FormatBytes(r.Min) + " - " + FormatBytes(r.Max)
}
