package csvtable

import (
	"encoding/csv"
	"fmt"
	"io"
)

// Limits of a row.
const (
	mostFields = 64
	mostRow    = 1 << 20 // bytes
)

// RowError is a row beyond the limits. The reader cannot go on after it.
type RowError struct {
	Line int // of its start, from 1
	Text string
}

func (e *RowError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Text) }

// NewReader returns a reader that skips comments and takes rows of any number of fields up to the
// limits. encoding/csv holds a whole row: one of 60 MiB of commas would take gigabytes. So a row
// beyond the limits is a *RowError before it is split.
func NewReader(in io.Reader) *csv.Reader {
	r := csv.NewReader(&bounded{in: in, line: 1, start: 1})
	r.Comment, r.FieldsPerRecord = '#', -1
	return r
}

// bounded passes bytes on until the first row beyond the limits.
type bounded struct {
	in            io.Reader
	at            place
	line, start   int // where it is, and where the row starts
	fields, bytes int // of the row so far, without the present field
	err           error
}

// place is where in a row a byte stands, as encoding/csv has it.
type place int8

const (
	atRow   place = iota // at its start
	atField              // at the start of a field
	inField
	inQuotes
	afterQuote // which ends the field or begins a pair of quotes
	inSkipped  // a comment, or what follows an error
)

func (b *bounded) Read(into []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.in.Read(into)
	for i, c := range into[:n] {
		b.next(c)
		switch {
		case b.fields >= mostFields:
			b.err = &RowError{b.start, fmt.Sprintf("more than %d fields in a row (allowed: up to %d)", mostFields,
				mostFields)}
		case b.bytes > mostRow:
			b.err = &RowError{b.start, "more than 1 MiB in a row (allowed: up to 1 MiB)"}
		default:
			continue
		}
		return i, b.err
	}
	return n, err
}

func (b *bounded) next(c byte) {
	b.bytes++
	if c == '\n' {
		b.line++
		if b.at != inQuotes {
			b.at, b.start, b.fields, b.bytes = atRow, b.line, 0, 0
		}
		return
	}
	switch b.at {
	case inSkipped:
	case inQuotes:
		if c == '"' {
			b.at = afterQuote
		}
	default:
		switch {
		case c == ',':
			b.fields++
			b.at = atField
		case c == '"' && b.at != inField: // opens, or is the second of a pair
			b.at = inQuotes
		case c == '#' && b.at == atRow, c == '"', b.at == afterQuote && c != '\r':
			b.at = inSkipped
		case b.at != afterQuote:
			b.at = inField
		}
	}
}
