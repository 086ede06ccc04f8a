package wording

import (
	"fmt"
	"slices"
	"strings"
)

// longest is above all known names, in bytes. What is longer, as a file of another kind has it, is not compared.
const longest = 64

// Nearest returns the known name, in lower case, nearest to got, or "" when none is near.
func Nearest(got string, known []string) string {
	if len(got) > longest {
		return ""
	}
	got = strings.ToLower(got)
	best, distance := "", 2+len(got)/4 // a transposition is two edits
	for _, k := range known {
		if d := edits(got, k); d < distance {
			best, distance = k, d
		}
	}
	for i := range max(len(got)-1, 0) { // of a short word, no two edits are near
		swapped := got[:i] + got[i+1:i+2] + got[i:i+1] + got[i+2:]
		if best == "" && slices.Contains(known, swapped) {
			best = swapped
		}
	}
	return best
}

// edits counts the bytes to insert, drop or replace between two words. row has it for each beginning of b.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for i := range len(a) + 1 {
		diagonal := 0
		for j, above := range row {
			switch {
			case i == 0 || j == 0:
				row[j] = i + j
			case a[i-1] == b[j-1]:
				row[j] = diagonal
			default:
				row[j] = 1 + min(diagonal, above, row[j-1])
			}
			diagonal = above
		}
	}
	return row[len(b)]
}

// DidYouMean returns `did you mean "x"; ` for the known name, in lower case, nearest to got, or "" when none is near.
func DidYouMean(got string, known []string) string {
	best := Nearest(got, known)
	if best == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q; ", best)
}

// Quote shows a word in a message, cut where it would flood the log.
func Quote(s string) string {
	const most = 60
	if len(s) > most {
		return fmt.Sprintf("%q...", strings.ToValidUTF8(s[:most], ""))
	}
	return fmt.Sprintf("%q", s)
}
