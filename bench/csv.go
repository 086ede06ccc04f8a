package bench

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/csvtable"
)

// sweep reads CSV rows by the names of their columns. gocsv, which reads the project's policies,
// takes three times the processor time of encoding/csv.
type sweep struct {
	r      *Result
	in     *csv.Reader
	at     [numColumns]int // place of each column in a row; -1: there is none
	line   int
	fields []string
	source string // of the last row: many rows in turn have the same

	setups map[Setup]*Setup
	hint   string // at another choice than NCCL's, where no column tells who chose
	tells  bool   // a column does
	run    *run   // of rows without a collective
}

func readCSV(in io.Reader, r *Result) error {
	s := &sweep{r: r, in: csvtable.NewReader(in), setups: map[Setup]*Setup{}, run: &run{line: 1, isCSV: true}}
	s.in.ReuseRecord = true
	header, err := s.in.Read()
	if err != nil {
		return s.unread(err)
	}
	line, _ := s.in.FieldPos(0)
	if err := s.header(line, header); err != nil {
		return err
	}
	for {
		s.fields, err = s.in.Read()
		if err == io.EOF {
			break
		}
		var syntax *csv.ParseError
		if errors.As(err, &syntax) {
			s.line = syntax.StartLine
			s.r.Rows++
			s.unreadable(rejectMalformed, "%v", syntax.Err)
			continue
		}
		if err != nil {
			return s.unread(err)
		}
		s.line, _ = s.in.FieldPos(0)
		s.row()
		if err := r.tooMany(s.run); err != nil {
			return fmt.Errorf("%s:%d: %w", r.File, s.line, err)
		}
	}
	return s.finish()
}

func (s *sweep) finish() error {
	r := s.r
	s.run.finish(r, &environment{})
	if len(r.Samples) == 0 && len(r.Rejected) == 0 && len(r.Failed) == 0 {
		return fmt.Errorf("%s: no row after the header", r.File)
	}
	return nil
}

// unread says where reading has ended.
func (s *sweep) unread(err error) error {
	var refused *csvtable.RowError
	if errors.As(err, &refused) {
		return fmt.Errorf("%s:%d: %s", s.r.File, refused.Line, refused.Text)
	}
	return fmt.Errorf("%s: after line %d: %w", s.r.File, s.line, err)
}

// readReport reads the reports of rccl-tests (-Z json): one object for each time, in a list or one after the other.
func readReport(in *bufio.Reader, r *Result) error {
	s := &sweep{r: r, setups: map[Setup]*Setup{}, run: &run{line: 1, isCSV: true}}
	decoder := json.NewDecoder(in)
	decoder.UseNumber()
	start, _ := in.Peek(64)
	inList := bytes.HasPrefix(bytes.TrimLeft(start, " \t\r\n"), []byte("["))
	if inList {
		_, _ = decoder.Token()
	}
	var names []string
	for {
		start := decoder.InputOffset()
		if inList && !decoder.More() {
			break
		}
		var record map[string]any
		err := decoder.Decode(&record)
		if err == io.EOF && !inList {
			break
		}
		if err != nil && !isCut(err) {
			return fmt.Errorf("%s: at byte %d: %w", r.File, start, err)
		}
		if err != nil {
			r.note(0, "the file ends in the middle: it was cut off, or the run was")
			break
		}
		s.line++
		if names == nil {
			names = slices.Sorted(maps.Keys(record))
			if err := s.header(s.line, names); err != nil {
				return err
			}
		}
		s.fields = s.fields[:0]
		for _, name := range names {
			s.fields = append(s.fields, fmt.Sprint(record[name]))
		}
		s.row()
		if err := r.tooMany(s.run); err != nil {
			return fmt.Errorf("%s: record %d: %w", r.File, s.line, err)
		}
	}
	return s.finish()
}
