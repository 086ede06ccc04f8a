package bench

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// sweep reads CSV rows by the names of their columns. It cuts lines at commas and leaves
// those with quotes to encoding/csv: a million rows take a third of the processor time.
// gocsv, which reads the project's policies, takes three times that of encoding/csv.
type sweep struct {
	r      *Result
	opts   Options
	buffer *bufio.Reader // of in, too
	in     *csv.Reader
	at     [numColumns]int // place of each column in a row; -1: there is none
	cut    int             // lines that in did not see
	parsed int             // and those that it did
	line   int
	fields []string

	interned map[string]string
	colls    map[string]nccl.Coll
	setups   map[Setup]*Setup
	hasSetup bool // a column of it is there
	// named is what the file's name says where no column holds a label.
	named named
	run   *run // of rows without a collective
}

func readCSV(in *bufio.Reader, r *Result, opts Options) error {
	s := &sweep{r: r, opts: opts, buffer: in, in: csv.NewReader(in), interned: map[string]string{}, colls: map[string]nccl.Coll{}, setups: map[Setup]*Setup{}, run: &run{line: 1, isCSV: true}}
	s.in.Comment = '#'
	s.in.FieldsPerRecord = -1
	s.in.ReuseRecord = true
	header, err := s.in.Read()
	if err != nil {
		return fmt.Errorf("%s: %w", r.File, err)
	}
	if err := s.header(header); err != nil {
		return err
	}
	s.parsed = s.lastLine(header)
	for {
		if s.cutLine() {
			s.row()
			continue
		}
		s.fields, err = s.in.Read()
		if err == io.EOF {
			break
		}
		var syntax *csv.ParseError
		if errors.As(err, &syntax) {
			s.line, s.parsed = s.cut+syntax.StartLine, syntax.Line
			s.r.Rows++
			s.unreadable(rejectMalformed, "%v", syntax.Err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", r.File, s.line, err)
		}
		first, _ := s.in.FieldPos(0)
		s.line, s.parsed = s.cut+first, s.lastLine(s.fields)
		s.row()
	}
	s.run.finish(r, opts, &environment{}, OriginNone)
	r.sortMalformed()
	if r.Kept == 0 && len(r.Rejected) == 0 && len(r.Failed) == 0 {
		return fmt.Errorf("%s: no row after the header", r.File)
	}
	return nil
}

// lastLine is the number, as encoding/csv counts, of the line that its last record ends in.
func (s *sweep) lastLine(record []string) int {
	last := len(record) - 1
	line, _ := s.in.FieldPos(last)
	return line + strings.Count(record[last], "\n")
}

// cutLine cuts a line at its commas. false: the buffer does not hold all of it, or it is for
// encoding/csv, which reads from the same buffer.
func (s *sweep) cutLine() bool {
	held, _ := s.buffer.Peek(s.buffer.Buffered())
	end := bytes.IndexByte(held, '\n')
	if end <= 0 || held[0] == '#' || bytes.IndexByte(held[:end], '"') >= 0 || held[0] == '\r' {
		return false
	}
	text := strings.TrimSuffix(string(held[:end]), "\r")
	_, _ = s.buffer.Discard(end + 1)
	s.cut++
	s.line, s.fields = s.cut+s.parsed, s.fields[:0]
	for field := range strings.SplitSeq(text, ",") {
		s.fields = append(s.fields, field)
	}
	return true
}
