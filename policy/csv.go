package policy

// The reading of a policy file: csv.go splits it into rows and collects what is wrong, columns.go has the columns,
// fields.go turns the fields of a row into a Rule. ncclx.go turns files of NCCLX into the same rows. All problems of a
// file are reported, sorted, and a file with any makes no Policy.

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gocarina/gocsv"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/csvtable"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/when"
)

// maxProblems ends the reading of a file that is not a policy, such as a log that was named by mistake.
const maxProblems = 1000

// readFile reads a whole file. If there is any problem, its rules must not be used.
func readFile(file string, data []byte) *reader {
	r := &reader{file: file, conditions: map[string]*when.Condition{}}
	r.readRows(r.open(data))
	if r.full() {
		r.fail(r.problems[len(r.problems)-1].Line, 0,
			fmt.Errorf("%d problems up to here; the rest of the file is not read", maxProblems))
	}
	r.problems.sort()
	return r
}

// reader is one reading of a file.
type reader struct {
	file       string
	header          // the columns in the file's order
	headerLine int  // 0 without a header
	json       bool // the file is JSON, which has no columns

	rules      []Rule                     // in the file's order
	conditions map[string]*when.Condition // by their text: rows with equal ones share it
	problems   Problems
}

// full reports that reading should stop.
func (r *reader) full() bool { return len(r.problems) >= maxProblems }

func (r *reader) fail(line, column int, err error) {
	if r.json {
		column = 0
	}
	r.problems = append(r.problems, Problem{r.file, line, column, err.Error()})
}

// open finds the columns, and returns the text of the table.
func (r *reader) open(data []byte) []byte {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	switch {
	case bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")):
		r.fail(1, 0, errors.New("the file is UTF-16 (allowed: UTF-8)"))
		return nil
	case bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")):
		return r.rulesAsCSV(data)
	}
	if !r.readHeader(data) {
		return nil
	}
	if r.headerLine == 0 && ncclxRow.Match(data) {
		r.header = ncclxColumns
		return unquoted.ReplaceAll(data, []byte(`"$1"`))
	}
	return data
}

// readHeader finds the columns. A first row that names any column is a header: no column's name is
// a legal field of the first row of data. It returns false where the rows below cannot be read.
func (r *reader) readHeader(data []byte) bool {
	r.header = columns[:headerlessColumns]
	in := csvtable.NewReader(bytes.NewReader(data))
	first, err := in.Read()
	for err == nil && blank(first) {
		first, err = in.Read()
	}
	if err != nil || !slices.ContainsFunc(first, func(s string) bool { return columnNamed(s) != nil }) {
		return true
	}
	r.headerLine, _ = in.FieldPos(0)
	r.header = nil
	for len(first) > 0 && strings.TrimSpace(first[len(first)-1]) == "" { // as spreadsheets leave them
		first = first[:len(first)-1]
	}
	known := names(columns)
	if len(first) > 2*len(known) { // with fewer, it pays to say which are wrong
		r.fail(r.headerLine, 0, fmt.Errorf("the header has %d columns (allowed: each of these once: %s)", len(first),
			strings.Join(known, ", ")))
		return false
	}
	found, wrong := csvtable.Columns(first, known, []string{"collective", "algorithm"}, func(field string) string {
		if col := columnNamed(field); col != nil {
			return col.name
		}
		return ""
	})
	for _, w := range wrong {
		r.fail(r.headerLine, w.Column, errors.New(w.Text))
	}
	for _, name := range found {
		col := &unknownColumn
		if name != "" {
			col = columnNamed(name)
		}
		r.header = append(r.header, col)
	}
	return true
}

// readRows lets gocsv fill one row per line. It puts the columns that readHeader found in front, as gocsv's
// header. This shifts line numbers by one.
func (r *reader) readRows(data []byte) {
	header := strings.Join(append(names(r.header), beyondColumn), ",") + "\n"
	in := csvtable.NewReader(io.MultiReader(strings.NewReader(header), bytes.NewReader(data)))
	in.ReuseRecord = true
	rows, err := gocsv.NewUnmarshaller(in, &row{})
	if err != nil {
		r.fail(1, 0, err)
		return
	}
	const shortRow = 16 // bytes; lines may be empty
	r.rules = make([]Rule, 0, 1+min(bytes.Count(data, []byte("\n")), len(data)/shortRow))
	for !r.full() {
		v, err := rows.Read()
		var syntax *csv.ParseError
		var refused *csvtable.RowError
		switch {
		case err == io.EOF:
			return
		case errors.As(err, &syntax):
			r.fail(syntax.StartLine-1, 0, syntaxText(syntax))
			continue
		case errors.As(err, &refused):
			r.fail(refused.Line-1, 0, errors.New(refused.Text))
			return
		case err != nil:
			r.fail(1, 0, err)
			return
		}
		line, _ := in.FieldPos(0)
		fields := fieldReader{r: r, line: line - 1, row: v.(*row)}
		switch {
		case fields.line == r.headerLine || fields.blank():
		case columnNamed(fields.row.Collective.text) != nil:
			r.fail(fields.line, 0, errors.New("another header (allowed: one, as the first row)"))
		default:
			r.rules = append(r.rules, Rule{})
			fields.readRule(&r.rules[len(r.rules)-1])
		}
	}
}

func syntaxText(e *csv.ParseError) error {
	switch e.Err {
	case csv.ErrQuote:
		return errors.New(
			`a quoted field is not closed, or text follows its closing quote (write a quote inside it as "")`)
	case csv.ErrBareQuote:
		return errors.New(`a quote stands inside an unquoted field (quote the whole field and write the quote as "")`)
	}
	return e.Err
}

func blank(record []string) bool {
	return !slices.ContainsFunc(record, func(s string) bool { return strings.TrimSpace(s) != "" })
}
