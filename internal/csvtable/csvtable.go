// Package csvtable is the one reader of CSV. NewReader reads rows and refuses lines that would take
// too much memory. Read adds a header that names the columns, in any order, and errors with file,
// line and column. Both ignore lines that begin with #.
package csvtable

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// mostErrors bounds the errors of one file.
const mostErrors = 20

// Table reads rows by the names of their columns. Its errors have file, line and column.
type Table struct {
	file   string
	csv    *csv.Reader
	before int            // lines of the file that come before the table
	places map[string]int // of columns, from 0
	row    []string
	rows   int
	errs   []error
}

// Read reads the header; file is for messages. columns are all that a table may have; the first
// `needed` of them are required. before is how many lines of the file come before text.
func Read(file, text string, before int, columns []string, needed int) (*Table, error) {
	t := &Table{file: file, csv: NewReader(strings.NewReader(text)), before: before, places: map[string]int{}}
	t.csv.TrimLeadingSpace = true
	header, err := t.csv.Read()
	switch {
	case err == io.EOF:
		return nil, fmt.Errorf("%s:%d:1: no header (needed: %s)", file, before+1, strings.Join(columns, ","))
	case err != nil:
		return nil, t.malformed(err)
	}
	names, wrong := Columns(header, columns, columns[:needed], func(field string) string {
		if name := strings.ToLower(strings.TrimSpace(field)); slices.Contains(columns, name) {
			return name
		}
		return ""
	})
	for _, w := range wrong {
		t.errs = append(t.errs, t.at(max(w.Column-1, 0), "%s", w.Text))
	}
	if len(wrong) > 0 {
		return nil, t.Err()
	}
	for i, name := range names {
		t.places[name] = i
	}
	return t, nil
}

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

// Next turns to the next row that has as many fields as the header. It is false at the end, and
// after mostErrors errors.
func (t *Table) Next() bool {
	for len(t.errs) < mostErrors {
		row, err := t.csv.Read()
		if err == io.EOF {
			return false
		}
		if err != nil {
			t.errs = append(t.errs, t.malformed(err))
			return false
		}
		if t.row = row; len(row) == len(t.places) {
			t.rows++
			return true
		}
		t.errs = append(t.errs, t.at(0, "%d fields (needed: %d, as in the header)", len(row), len(t.places)))
	}
	return false
}

// Field returns a field of the row, empty where there is no such column.
func (t *Table) Field(column string) string {
	if i, ok := t.places[column]; ok {
		return strings.TrimSpace(t.row[i])
	}
	return ""
}

// Line is that of the row.
func (t *Table) Line() int {
	line, _ := t.csv.FieldPos(0)
	return t.before + line
}

// Fail says what is wrong with a field of the row.
func (t *Table) Fail(column, format string, args ...any) {
	t.errs = append(t.errs, t.at(t.places[column], "%s: %s", column, fmt.Sprintf(format, args...)))
}

// Failures is the number of errors so far.
func (t *Table) Failures() int { return len(t.errs) }

// Err joins up to mostErrors errors. A table without rows is an error, too.
func (t *Table) Err() error {
	if t.rows == 0 && len(t.errs) == 0 {
		return fmt.Errorf("%s: no rows below the header (needed: one or more)", t.file)
	}
	return errors.Join(t.errs[:min(len(t.errs), mostErrors)]...)
}

func (t *Table) at(field int, format string, args ...any) error {
	line, column := t.csv.FieldPos(field)
	return fmt.Errorf("%s:%d:%d: %s", t.file, t.before+line, column, fmt.Sprintf(format, args...))
}

func (t *Table) malformed(err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return fmt.Errorf("%s:%d:%d: %w", t.file, t.before+parse.Line, parse.Column, parse.Err)
	}
	var refused *RowError
	if errors.As(err, &refused) {
		return fmt.Errorf("%s:%d:1: %s", t.file, t.before+refused.Line, refused.Text)
	}
	return fmt.Errorf("%s: %w", t.file, err)
}
