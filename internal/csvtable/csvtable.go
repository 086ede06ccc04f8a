// Package csvtable is the one reader of CSV. NewReader reads rows, ignores lines that begin with #, and refuses lines
// that would take too much memory. Columns finds the columns that a header names, in any order.
package csvtable

import (
	"fmt"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// mostErrors bounds the errors of one header.
const mostErrors = 20

// Wrong is what is wrong with a header.
type Wrong struct {
	Column int // from 1; 0: none of its own
	Text   string
}

// Columns finds the columns that a header's fields name, "" for those that it does not accept, and says what is wrong
// with them. named returns the column that a field means, or "". known are all columns; needed must be there.
func Columns(fields, known, needed []string, named func(field string) string) (names []string, wrong []Wrong) {
	seen := map[string]bool{}
	for i, field := range fields {
		name, text := named(field), ""
		switch {
		case name == "":
			field = strings.TrimSpace(field)
			text = fmt.Sprintf("unknown column %s (%sallowed: %s)", wording.Quote(field),
				wording.DidYouMean(field, known), strings.Join(known, ", "))
		case seen[name]:
			text = fmt.Sprintf("column %s is named twice", name)
			name = ""
		}
		if text != "" && len(wrong) < mostErrors {
			wrong = append(wrong, Wrong{i + 1, text})
		}
		seen[name] = true
		names = append(names, name)
	}
	for _, name := range needed {
		if !seen[name] {
			wrong = append(wrong, Wrong{0, fmt.Sprintf("no column %s (needed: %s)", name, strings.Join(needed, ", "))})
		}
	}
	return names, wrong
}
