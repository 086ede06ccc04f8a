package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// Few joins the first strings of a list, and the number of the others.
func Few(list []string, most int, separator string) string {
	if len(list) > most {
		list = append(slices.Clone(list[:most]), fmt.Sprintf("and %d more", len(list)-most))
	}
	return strings.Join(list, separator)
}

// Percent writes a share; - for one that is not known.
func Percent(share float64) string {
	if math.IsNaN(share) {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}

// WriteJSON prints v, indented.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// Table lines up cells. What files and records say stays within its cell, see wording.Line.
type Table struct{ w *tabwriter.Writer }

// NewTable prints a table to w, at Flush.
func NewTable(w io.Writer) *Table { return &Table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)} }

// Row adds a line, an empty one without cells.
func (t *Table) Row(cells ...any) {
	line := make([]string, len(cells))
	for i, c := range cells {
		line[i] = wording.Line(fmt.Sprint(c))
	}
	fmt.Fprintln(t.w, strings.Join(line, "\t"))
}

// Flush prints the lines. What follows is lined up by itself.
func (t *Table) Flush() error { return t.w.Flush() }

// ShellWords quotes words for a shell.
func ShellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = ShellWord(w)
	}
	return strings.Join(quoted, " ")
}

// ShellWord quotes a word for a shell where that is needed.
func ShellWord(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("_-./=:,@%+", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
