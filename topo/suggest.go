package topo

import (
	"cmp"
	"fmt"
	"slices"
)

// didYouMean returns `did you mean "x"; ` for the nearest known name, or "" when none is near.
func didYouMean(got string, known []string) string {
	best := slices.MinFunc(known, func(a, b string) int { return cmp.Compare(edits(got, a), edits(got, b)) })
	if edits(got, best) > max(1, len(best)/2) {
		return ""
	}
	return fmt.Sprintf("did you mean %q; ", best)
}

// edits is the number of characters to insert, delete or replace to make b of a.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
