package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// Table lines up cells. What files and records say stays within its cell, see wording.Line. Where the lines are wider
// than the terminal, which would break them anywhere, each cell has a line of its own, with its column's name.
type Table struct {
	w     io.Writer
	named bool // the first row names the columns
	rows  [][]string
}

// NewTable prints a table to w, at Flush. Its first row names the columns.
func NewTable(w io.Writer) *Table { return &Table{w: w, named: true} }

// NewList prints a table whose columns have no names.
func NewList(w io.Writer) *Table { return &Table{w: w} }

// Row adds a line, an empty one without cells.
func (t *Table) Row(cells ...any) {
	line := make([]string, len(cells))
	for i, c := range cells {
		line[i] = wording.Line(fmt.Sprint(c))
	}
	t.rows = append(t.rows, line)
}

// Flush prints the lines. What follows is another table.
func (t *Table) Flush() {
	var text bytes.Buffer
	tw := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range t.rows {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	tw.Flush()
	if most := Width(t.w); most > 0 {
		for line := range strings.Lines(text.String()) {
			if utf8.RuneCountInString(strings.TrimRight(line, " \n")) > most {
				text.Reset()
				t.narrow(&text)
				break
			}
		}
	}
	t.w.Write(trailing.ReplaceAll(text.Bytes(), nil))
	t.rows = nil
}

// trailing is what empty cells at the end of a line leave.
var trailing = regexp.MustCompile(`(?m) +$`)

// narrow writes each cell to a line of its own. Those after a row's first one are indented.
func (t *Table) narrow(w io.Writer) {
	rows, names := t.rows, []string(nil)
	if at := slices.IndexFunc(rows, func(row []string) bool { return len(row) > 0 }); t.named && at >= 0 {
		names = rows[at]
		rows = slices.Delete(slices.Clone(rows), at, at+1)
	}
	for _, row := range rows {
		if len(row) == 0 {
			fmt.Fprintln(w)
		}
		margin := ""
		for i, cell := range row {
			if strings.TrimSpace(cell) == "" {
				continue
			}
			if i < len(names) && strings.TrimSpace(names[i]) != "" {
				cell = strings.TrimSpace(names[i]) + ": " + strings.TrimSpace(cell)
			}
			fmt.Fprintln(w, margin+cell)
			if margin == "" {
				margin = strings.Repeat(" ", len(cell)-len(strings.TrimLeft(cell, " "))) + "  "
			}
		}
	}
}

// Columns is a writer of a text that is printed where a line has so many columns; 0: any number.
type Columns struct {
	io.Writer
	Most int
}

// Width is how many columns a line has where w prints; 0: any number, since it is no terminal.
func Width(w io.Writer) int {
	switch w := below(w).(type) {
	case Columns:
		return w.Most
	case *os.File:
		if size, err := unix.IoctlGetWinsize(int(w.Fd()), unix.TIOCGWINSZ); err == nil {
			return int(size.Col)
		}
	}
	return 0
}
