package policy

import (
	"bytes"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/csvtable"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Sheet is the text of a policy file by rows and fields, for tools that quote it. It does not change.
type Sheet struct {
	columns []string
	json    bool             // the columns are not the file's
	rows    map[int]sheetRow // by the line that they begin on
}

type sheetRow struct {
	comments []byte // the lines before it
	text     string
	fields   []string
}

// ReadSheet finds the rows and fields of a file that ReadCSV accepts.
func ReadSheet(text []byte) (*Sheet, error) {
	r := &reader{}
	text = r.open(text)
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	s := &Sheet{columns: names(r.header), json: r.json, rows: map[int]sheetRow{}}
	in := csvtable.NewReader(bytes.NewReader(text))
	line, start := 1, 0 // of what follows the last record
	for {
		fields, err := in.Read()
		if err != nil {
			return s, nil
		}
		first, _ := in.FieldPos(0)
		after := int(in.InputOffset())
		lines := bytes.SplitAfter(text[start:after], []byte("\n")) // comments and empty lines come first
		if first != r.headerLine && !blank(fields) {
			s.rows[first] = sheetRow{bytes.Join(lines[:first-line], nil),
				string(bytes.Join(lines[first-line:], nil)), fields}
		}
		line, start = line+len(lines)-1, after
	}
}

// Row returns the text of the row that begins on a line, counted from 1; "" if none does.
func (s *Sheet) Row(line int) string { return s.rows[line].text }

// Remarks returns what the comments between a row and the one before it say.
func (s *Sheet) Remarks(line int) nccl.Remarks { return nccl.ReadRemarks(s.rows[line].comments) }

// ColumnNumber returns which column of the file has that name, from 1; 0: none.
func (s *Sheet) ColumnNumber(name string) int {
	if s.json {
		return 0
	}
	return 1 + slices.Index(s.columns, name)
}

// Field returns a row's field of a column, without quotes and the white space around it; "" where there is none.
func (s *Sheet) Field(line int, column string) string {
	i, fields := slices.Index(s.columns, column), s.rows[line].fields
	if i < 0 || i >= len(fields) {
		return ""
	}
	return strings.TrimSpace(fields[i])
}
