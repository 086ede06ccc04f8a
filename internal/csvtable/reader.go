package csvtable

import (
	"encoding/csv"
	"fmt"
	"io"
)

const mostLine = 1 << 20 // bytes

// RowError is a line that is too long. The reader cannot go on after it.
type RowError struct {
	Line int // from 1
	Text string
}

func (e *RowError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Text) }

// NewReader returns a reader that skips comments and takes rows of any number of fields. It refuses long lines with
// a *RowError, since encoding/csv holds a whole row: one of 60 MiB of commas would take gigabytes.
func NewReader(in io.Reader) *csv.Reader {
	r := csv.NewReader(&bounded{in: in, line: 1})
	r.Comment, r.FieldsPerRecord = '#', -1
	return r
}

// bounded passes bytes on until the first line that is too long.
type bounded struct {
	in          io.Reader
	line, bytes int // the line, and how much of it was read
	err         error
}

func (b *bounded) Read(into []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.in.Read(into)
	for i, c := range into[:n] {
		b.bytes++
		if c == '\n' {
			b.line, b.bytes = b.line+1, 0
		} else if b.bytes > mostLine {
			b.err = &RowError{b.line, "more than 1 MiB in a line (allowed: up to 1 MiB)"}
			return i, b.err
		}
	}
	return n, err
}
