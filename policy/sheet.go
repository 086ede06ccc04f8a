package policy

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/csvtable"
)

// Sheet is the text of a policy file, field by field, for tools that quote it or rewrite parts of it
// and keep the rest byte for byte. It does not change.
type Sheet struct {
	Text    []byte
	columns []string
	rows    map[int]sheetRow // by the line that they begin on
}

type sheetRow struct {
	lines  Span // the line break included
	fields []Span
}

// Span is a piece of Sheet.Text: from Start up to but not including End.
type Span struct{ Start, End int }

// ReadSheet finds the rows and fields of a file that ReadCSV accepts.
func ReadSheet(text []byte) (*Sheet, error) {
	r := &reader{}
	data := unindentComments(bytes.TrimPrefix(text, []byte("\ufeff")))
	r.readHeader(data)
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	// Comments are shorter in data than in text by their indent, so that places carry over by line
	// and column, not by offset.
	inData, inText := lineStarts(data), lineStarts(text)
	at := func(line, column int) int {
		if line == 1 {
			column += len(text) - len(bytes.TrimPrefix(text, []byte("\ufeff")))
		}
		return inText[line-1] + column - 1
	}
	s := &Sheet{Text: text, columns: names(r.columns), rows: map[int]sheetRow{}}
	in := csvtable.NewReader(bytes.NewReader(data))
	in.ReuseRecord = true
	for {
		record, err := in.Read()
		if record == nil || err != nil {
			return s, nil
		}
		first, _ := in.FieldPos(0)
		if first == r.headerLine || blank(record) {
			continue
		}
		after, _ := slices.BinarySearch(inData, int(in.InputOffset())) // the line that follows the record
		row := sheetRow{Span{at(first, 1), inText[after]}, make([]Span, len(record))}
		end := len(bytes.TrimRight(text[:row.lines.End], "\r\n"))
		for i := len(record) - 1; i >= 0; i-- {
			line, column := in.FieldPos(i)
			row.fields[i] = trimSpan(text, Span{at(line, column), end})
			end = at(line, column) - 1
		}
		s.rows[first] = row
	}
}

// Row returns the lines of the row that begins on a line, counted from 1.
func (s *Sheet) Row(line int) (Span, bool) {
	row, ok := s.rows[line]
	return row.lines, ok
}

// Field returns a row's field of a column, as written but for white space around it, and its number
// in the row, from 1; 0 where the row does not have it.
func (s *Sheet) Field(line int, column string) (number int, at Span) {
	i := slices.Index(s.columns, column)
	if row := s.rows[line]; i >= 0 && i < len(row.fields) {
		return i + 1, row.fields[i]
	}
	return 0, Span{}
}

// String returns the text of a field without quotes, "" where there is none.
func (s *Sheet) String(line int, column string) string {
	number, at := s.Field(line, column)
	if number == 0 {
		return ""
	}
	text := string(s.Text[at.Start:at.End])
	if len(text) >= 2 && text[0] == '"' {
		text = strings.ReplaceAll(text[1:len(text)-1], `""`, `"`)
	}
	return strings.TrimSpace(text)
}

// Replace returns the text with other words in place of some spans, which must not overlap.
func (s *Sheet) Replace(words map[Span]string) ([]byte, error) {
	spans := make([]Span, 0, len(words))
	for at := range words {
		spans = append(spans, at)
	}
	slices.SortFunc(spans, func(a, b Span) int { return a.Start - b.Start })
	var out []byte
	last := 0
	for _, at := range spans {
		if at.Start < last {
			return nil, fmt.Errorf("two replacements of bytes %d to %d", at.Start, last)
		}
		out = append(append(out, s.Text[last:at.Start]...), words[at]...)
		last = at.End
	}
	return append(out, s.Text[last:]...), nil
}

// lineStarts returns the offset of each line, and at last the text's length.
func lineStarts(text []byte) []int {
	starts := []int{0}
	for i, b := range text {
		if b == '\n' && i+1 < len(text) {
			starts = append(starts, i+1)
		}
	}
	return append(starts, len(text))
}

func trimSpan(text []byte, s Span) Span {
	for s.Start < s.End && (text[s.Start] == ' ' || text[s.Start] == '\t') {
		s.Start++
	}
	for s.Start < s.End && (text[s.End-1] == ' ' || text[s.End-1] == '\t') {
		s.End--
	}
	return s
}
