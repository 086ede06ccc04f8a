package when

// Condition is what a row's "when" says: an expression in expr-lang's syntax, of which only that
// part is allowed whose cost is bounded by the length of the text. It is immutable.
type Condition struct {
	Meaning string   // white space, spelling and constants do not change it
	Names   []string // that it mentions, each once
	PerCall bool     // it may hold for one call of a communicator and not for another
	// NeedsTopology and NeedsRanksPerNode say that it mentions what is not known of every
	// communicator.
	NeedsTopology     bool
	NeedsRanksPerNode bool

	text    string // as in the file
	program program
	limits  map[string][]uint64
}

// Limits returns the numbers that the condition compares a name with: where they are, what it says
// may change. Those that are computed, as in bytes > 1024*ranks, are not among them. A nil
// condition has none.
func (c *Condition) Limits(name string) []uint64 {
	if c == nil {
		return nil
	}
	return c.limits[name]
}

// String is the condition as it stands in the file.
func (c *Condition) String() string { return c.text }
