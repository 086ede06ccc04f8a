// Package suggest finds the name that somebody may have meant.
package suggest

import (
	"fmt"

	"github.com/agext/levenshtein"
)

// DidYouMean returns `did you mean "x"; ` for the known name nearest to got, or "" when none is near. Names are compared
// as fold makes them.
func DidYouMean(got string, known []string, fold func(string) string) string {
	got = fold(got)
	best, distance := "", 2+len(got)/4 // a transposition is two edits
	for _, k := range known {
		if d := levenshtein.Distance(got, fold(k), nil); d < distance {
			best, distance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q; ", best)
}
