package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/csvtable"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// looksLikeCSV reports whether the first line that is neither blank nor a
// comment names a size and a time, or the columns of something else.
func looksLikeCSV(start []byte) bool {
	for line := range bytes.Lines(start) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		known := 0
		for field := range strings.SplitSeq(string(line), ",") {
			if _, ok := columnOf(strings.Trim(field, `" `)); ok {
				known++
			}
		}
		return known >= 2
	}
	return false
}

// csvReader reads rows of named fields: CSV, and rccl-tests' reports in JSON. gocsv, which reads the project's
// policies, takes three times the processor time of encoding/csv.
type csvReader struct {
	r      *Result
	closed func(*testRun)
	at     [len(columns)]int // place of each column in a row; -1: there is none
	named  int               // columns of the header
	line   int
	source string // of the last row: many rows in turn have the same
	setups map[Setup]*Setup
	seen   map[measurement]int // how often it came without its start
	run    *testRun
}

func newCSV(r *Result, closed func(*testRun)) *csvReader {
	s := &csvReader{r: r, closed: closed, setups: map[Setup]*Setup{}, seen: map[measurement]int{},
		run: newRun(r.File, 1, noMark)}
	s.run.isCSV = true
	return s
}

func readCSV(in io.Reader, r *Result, closed func(*testRun)) error {
	s, lines := newCSV(r, closed), csvtable.NewReader(in)
	lines.ReuseRecord, lines.TrimLeadingSpace = true, true
	for isHeader := true; ; isHeader = false {
		fields, err := lines.Read()
		var syntax *csv.ParseError
		var refused *csvtable.RowError
		switch {
		case err == io.EOF && !isHeader:
			return s.finish()
		case errors.As(err, &syntax) && !isHeader:
			s.line = syntax.StartLine
			s.r.Rows++
			s.unreadable(rejectMalformed, "%v", syntax.Err)
			continue
		case errors.As(err, &refused):
			return fmt.Errorf("%s:%d: %s", r.File, refused.Line, refused.Text)
		case err != nil:
			return fmt.Errorf("%s: after line %d: %w", r.File, s.line, err)
		}
		if s.line, _ = lines.FieldPos(0); isHeader {
			err = s.header(fields)
		} else {
			err = s.row(fields)
		}
		if err != nil {
			return err
		}
	}
}

// readReport reads the reports of rccl-tests (-Z json): one object for each time, in a list or one after the other.
func readReport(in *bufio.Reader, r *Result, closed func(*testRun)) error {
	s, decoder := newCSV(r, closed), json.NewDecoder(in)
	decoder.UseNumber()
	start, _ := in.Peek(64)
	if bytes.HasPrefix(bytes.TrimLeft(start, " \t\r\n"), []byte("[")) {
		_, _ = decoder.Token()
	}
	for names := []string(nil); decoder.More(); {
		start := decoder.InputOffset()
		var record map[string]any
		if err := decoder.Decode(&record); isCut(err) {
			r.note(0, noteCutJSON)
			break
		} else if err != nil {
			return fmt.Errorf("%s: at byte %d: %w", r.File, start, err)
		}
		s.line++
		if names == nil {
			names = sortedKeys(record)
			if err := s.header(names); err != nil {
				return err
			}
		}
		var fields []string
		for _, name := range names {
			fields = append(fields, fmt.Sprint(record[name]))
		}
		if err := s.row(fields); err != nil {
			return err
		}
	}
	return s.finish()
}

func (s *csvReader) finish() error {
	r := s.r
	s.close()
	if len(r.Samples) == 0 && len(r.Rejected) == 0 && len(r.Failed) == 0 {
		return fmt.Errorf("%s: no row after the header", r.File)
	}
	return nil
}

// close hands the rows so far over.
func (s *csvReader) close() {
	s.closed(s.run)
	s.run.rows = s.run.rows[:0]
}

func (s *csvReader) header(names []string) error {
	for i := range s.at {
		s.at[i] = -1
	}
	s.named = len(names)
	var unused []string
	for i, name := range names {
		c, ok := columnOf(name)
		switch {
		case !ok:
			column := wording.Quote(name)
			if meant := wording.Nearest(name, columnNames); meant != "" {
				column += fmt.Sprintf(" (did you mean %q?)", meant)
			}
			if len(unused) < mostNotes {
				unused = append(unused, column)
			}
		case s.at[c] >= 0:
			return fmt.Errorf("%s:%d:%d: column %s is named twice", s.r.File, s.line, i+1, columnNames[c])
		default:
			s.at[c] = i
		}
	}
	allowed := strings.Join(columnNames[:sweepColumns], ", ")
	if unused != nil {
		s.r.note(s.line, noteUnused, strings.Join(unused, ", "), allowed)
	}
	for _, c := range []int{colBytes, colMicros} {
		if s.at[c] < 0 {
			return fmt.Errorf("%s:%d: no column %s (%sallowed: %s)", s.r.File, s.line, columnNames[c],
				wording.DidYouMean(columnNames[c], names), allowed)
		}
	}
	s.run.tells = s.has("algorithm", "protocol", "channels", "selection")
	if s.has("pipeOps", "cost_metric") {
		s.r.Format = formatOptimize
	}
	if s.has("bandwidth_gbps") {
		s.r.note(s.line, noteBandwidth)
	}
	return nil
}

// has reports whether the file has one of the columns.
func (s *csvReader) has(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return s.at[columnByName[fold(name)]] >= 0 })
}

// unreadable counts a row that cannot be read.
func (s *csvReader) unreadable(reason, format string, args ...any) {
	s.r.reject(s.line, 1, reason)
	s.r.note(s.line, format, args...)
}

// row reads one line.
func (s *csvReader) row(fields []string) error {
	// rccl-tests with MPI names no column nodes, and writes one before ranks.
	if len(fields) == s.named+1 && s.has("ranks") && s.has("numCycle") && !s.has("nodes") {
		ranks := s.at[columnByName["ranks"]]
		for i := range s.at {
			if s.at[i] >= ranks {
				s.at[i]++
			}
		}
		s.at[columnByName["nodes"]] = ranks
	}
	if len(fields) == 1 && strings.TrimSpace(fields[0]) == "" {
		return nil
	}
	s.r.Rows++
	var setup Setup
	s.run.rows = append(s.run.rows, newRow(s.line)) // it is written in place
	m, said := &s.run.rows[len(s.run.rows)-1], setup.fields()
	if reason, wrong := s.read(fields, m, said); reason != "" {
		s.run.rows = s.run.rows[:len(s.run.rows)-1]
		s.unreadable(reason, "%s", wrong)
		return nil
	}
	m.Setup = s.shared(setup)
	switch {
	case m.Selection == SelectionUnknown && m.Cell == nccl.NoCell && !strings.Contains(setup.Variables, unsure),
		m.Selection == SelectionDefault:
		if m.Selection = SelectionDefault; setup.Tuner != "" {
			m.Selection = SelectionForced // by the tuner
		}
	}
	m.failed = m.failed && m.Selection == SelectionForced // see WriteTidy
	if m.Source == "" {
		m.Source = s.r.File + ":" + strconv.Itoa(s.line)
	} else {
		if m.Source != s.source {
			s.source = strings.Clone(m.Source) // the record is one long string
		}
		m.Source = s.source
		m.Simulated = strings.HasPrefix(m.Source, simulatedPrefix)
		m.Verify = strings.HasPrefix(strings.TrimPrefix(m.Source, simulatedPrefix), verifyWord+":")
	}
	s.count(m)
	if err := s.r.tooMany(len(s.run.rows)); err != nil {
		return fmt.Errorf("%s:%d: %w", s.r.File, s.line, err)
	}
	const chunk = 1 << 16 // rows in memory
	if len(s.run.rows) == chunk {
		s.close()
	}
	return nil
}

// read reads the fields of a row and of its setup, or returns why it cannot be used.
func (s *csvReader) read(fields []string, m *row, setup []*string) (reason, wrong string) {
	m.failed = true
	for c, i := range s.at {
		isNeeded := c == colBytes || c == colMicros
		if i < 0 || i >= len(fields) {
			if isNeeded {
				return rejectTruncated, fmt.Sprintf("the row ends before %s, its field %d", columns[c].name, i+1)
			}
			continue
		}
		v := strings.TrimSpace(fields[i])
		if v == "" && c != colBytes {
			continue
		}
		if c >= sweepColumns && c < floorColumns {
			*setup[c-sweepColumns] = v
		}
		if read := columns[c].read; read != nil {
			if wrong := read(m, v); wrong != "" {
				return rejectMalformed, columns[c].name + ": " + wrong
			}
		}
	}
	return "", ""
}

// shared returns the one copy of a setup that many rows have; nil: nothing is known.
func (s *csvReader) shared(said Setup) *Setup {
	setup, known := s.setups[said]
	if !known {
		setup = said.clean()
		s.setups[said] = setup
	}
	return setup
}

// measurement is what one pass measures once.
type measurement struct {
	op   operation
	file string
	Series
	nccl.Config
	Selection
	bytes uint64
}

// count counts the starts of a file that does not: a start has one pass then, so a repetition is of another one.
func (s *csvReader) count(m *row) {
	if m.Pass = max(m.Pass, 1); m.Start == 0 && !m.failed {
		of := measurement{m.op, m.File(), m.Series(), m.Config, m.Selection, m.Bytes}
		s.seen[of]++
		m.Start = s.seen[of]
	}
}

// WriteTidy writes the samples of any number of files as one sweep CSV, which Read gives back unchanged. A field is
// empty where its value is not known, as the time of a sample that failed. Without any Setup its columns are left out.
func WriteTidy(w io.Writer, files ...[]Sample) error {
	most := sweepColumns
	for _, samples := range files {
		for i := range samples {
			switch setup := samples[i].Setup; {
			case setup == nil:
			case setup.MinChannels != "" || setup.MinCTAs != "" || setup.Variables != "":
				most = floorColumns
			default:
				most = max(most, setupColumns)
			}
		}
	}
	out := csv.NewWriter(w)
	_ = out.Write(columnNames[:most]) // Error has it, at the end
	for _, samples := range files {
		for i := range samples {
			fields, setup := make([]string, 0, most), cmp.Or(samples[i].Setup, &Setup{})
			for c := range sweepColumns {
				fields = append(fields, columns[c].write(&samples[i]))
			}
			for _, said := range setup.fields()[:most-sweepColumns] {
				fields = append(fields, *said)
			}
			_ = out.Write(fields)
		}
	}
	out.Flush()
	return out.Error()
}
