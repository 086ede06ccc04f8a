package nccl

// Range is an inclusive range of bytes.
type Range struct{ Min, Max uint64 }

// Contains reports whether a size is in the range.
func (r Range) Contains(n uint64) bool { return r.Min <= n && n <= r.Max }

// String writes a range as files do: 64KiB - inf.
func (r Range) String() string { return FormatBytes(r.Min) + " - " + FormatBytes(r.Max) }
