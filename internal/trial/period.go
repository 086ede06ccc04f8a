package trial

// minRepeats is how often a step must have been seen.
const minRepeats = 3

// Period returns the number of calls in a step: the least after which the calls, each given
// by a hash, repeat. 0 means that they do not, or not often enough. What came before the second
// half of the calls need not belong to steps.
func Period(calls []uint64) int {
	for _, of := range [][]uint64{calls, calls[len(calls)/2:]} {
		if p := len(of) - longestBorder(of); p > 0 && minRepeats*p <= len(of) {
			return p
		}
	}
	return 0
}

// longestBorder returns the length of the longest proper prefix that is also a suffix
// (Knuth, Morris and Pratt).
func longestBorder(s []uint64) int {
	if len(s) == 0 {
		return 0
	}
	border := make([]int, len(s))
	for i := 1; i < len(s); i++ {
		b := border[i-1]
		for b > 0 && s[i] != s[b] {
			b = border[b-1]
		}
		if s[i] == s[b] {
			b++
		}
		border[i] = b
	}
	return border[len(s)-1]
}
