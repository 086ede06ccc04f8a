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
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/csvtable"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// csvColumn is a column of a CSV file.
type csvColumn struct {
	name    string
	aliases string // in files of others, folded
	// read takes a field that is not blank, and returns what is wrong with it; nil: it is of Setup, or not used.
	read func(r *csvRow, v string) string
	// write is the field of a sample; nil: it is a field of Setup, or the sweep format does not have it.
	write func(s *Sample) string
}

// csvColumns are the sweep format's, in its order, and those that only other files have.
var csvColumns = [...]csvColumn{
	{"collective", "coll name", func(r *csvRow, v string) string {
		r.op = operation(fold(v))
		if _, known := collByName[string(r.op)]; !known {
			return nccl.Colls.Unknown(v, "").Error()
		}
		return ""
	}, func(s *Sample) string { return nccl.Colls.Apart[s.Coll] }},
	{"size_bytes", "size size(b) bytes", func(r *csvRow, v string) (wrong string) {
		var err error
		if r.Bytes, err = strconv.ParseUint(v, 10, 64); err != nil {
			return wording.Quote(v) + " is not a number of bytes"
		}
		return ""
	}, func(s *Sample) string { return strconv.FormatUint(s.Bytes, 10) }},
	{"dtype", "type", func(r *csvRow, v string) string { r.DType = kept(v); return "" },
		func(s *Sample) string { return s.DType }},
	{"redop", "op", func(r *csvRow, v string) string {
		if _, isColl := collByName[fold(v)]; isColl {
			return v + " is a collective (allowed: a reduction, as sum; the column of collectives is collective)"
		}
		r.RedOp = strings.TrimPrefix(kept(v), "none")
		return ""
	}, func(s *Sample) string { return s.RedOp }},
	{"algorithm", "algo", func(r *csvRow, v string) string { return nameIn(v, &r.Algo, parseAlgo, nccl.Algos.Unknown) },
		func(s *Sample) string {
			if s.Algo == Unknown {
				return ""
			}
			return s.Algo.String()
		}},
	{"protocol", "proto",
		func(r *csvRow, v string) string { return nameIn(v, &r.Proto, parseProto, nccl.Protos.Unknown) },
		func(s *Sample) string {
			if s.Proto == Unknown {
				return ""
			}
			return s.Proto.String()
		}},
	{"channels", "nchannels", func(r *csvRow, v string) string { return countIn(v, &r.Channels) },
		func(s *Sample) string { return written(s.Channels) }},
	{"nodes", "nnodes", func(r *csvRow, v string) string { return countIn(v, &r.Nodes) },
		func(s *Sample) string { return written(s.Nodes) }},
	{"ranks", "nranks gpus", func(r *csvRow, v string) string { return countIn(v, &r.Ranks) },
		func(s *Sample) string { return written(s.Ranks) }},
	{"inplace", "", func(r *csvRow, v string) string {
		var err error
		if r.InPlace, err = strconv.ParseBool(v); err != nil {
			return wording.Quote(v) + " (allowed: 0, 1 or empty)"
		}
		return ""
	}, func(s *Sample) string {
		if s.InPlace {
			return "1"
		}
		return "0"
	}},
	{"selection", "", func(r *csvRow, v string) string {
		i := slices.Index(selections[:], v)
		if i < 0 {
			return wording.Quote(v) + " (allowed: forced, own_channels, default or empty)"
		}
		r.Selection = Selection(i)
		return ""
	}, func(s *Sample) string { return selections[s.Selection] }},
	{"time_us", "time latencyus time(us)", func(r *csvRow, v string) string {
		n, err := strconv.ParseFloat(v, 64)
		if err != nil && v != "N/A" && !errors.Is(err, strconv.ErrRange) {
			return wording.Quote(v) + " is not a number of microseconds (allowed: as 41.5)"
		}
		if r.failed = false; err == nil {
			r.Micros = n
		}
		return ""
	}, func(s *Sample) string { return written(s.Micros) }},
	{"algbw_gbps", "algbw algbwgbs algbw(gb/s)", func(r *csvRow, v string) string { r.AlgBW = bandwidth(v); return "" },
		func(s *Sample) string { return written(s.AlgBW) }},
	{"busbw_gbps", "busbw busbwgbs busbw(gb/s)", func(r *csvRow, v string) string { r.BusBW = bandwidth(v); return "" },
		func(s *Sample) string { return written(s.BusBW) }},
	{"source", "", func(r *csvRow, v string) string { r.Source = v; return "" }, func(s *Sample) string {
		if s.Simulated && !strings.HasPrefix(s.Source, simulatedPrefix) {
			return simulatedPrefix + s.Source
		}
		return s.Source
	}},
	{"start", "", func(r *csvRow, v string) string { return countIn(v, &r.Start) },
		func(s *Sample) string { return written(s.Start) }},
	{"pass", "", func(r *csvRow, v string) string { return countIn(v, &r.Pass) },
		func(s *Sample) string { return written(s.Pass) }},
	// Of Setup, left out of files that know nothing of it.
	{name: "gpu_model", aliases: "gputype"}, {name: "hosts"}, {name: "nccl_version"}, {name: "driver_version"},
	{name: "measured_at"}, {name: "tuner"}, {name: "options"},
	// The same, left out of files without any.
	{name: "min_nchannels", read: positive}, {name: "min_ctas", read: positive}, {name: "variables"},

	{"wrong", "#wrong", func(r *csvRow, v string) string {
		if v != "0" && v != "N/A" {
			r.reason = rejectFailed
		}
		return ""
	}, nil},
	{"numCycle", "", func(r *csvRow, v string) string { // of rccl-tests, from 0
		if n, err := strconv.Atoi(v); err == nil && n >= 0 {
			r.Pass, r.Start = cmp.Or(r.Pass, n+1), max(r.Start, 1)
		}
		return ""
	}, nil},
	// optimize_config.py's own: several operations in one launch and registered buffers, which a sample cannot say
	{"pipeOps", "numpipeops", func(r *csvRow, v string) string { return r.grouped(v, "-1", "0", "1") }, nil},
	{"regBuff", "", func(r *csvRow, v string) string { return r.grouped(v, "-1", "0") }, nil},
	{"ranks_per_node", "devicespernode", func(r *csvRow, v string) string {
		if n := atoi(v); r.Nodes == 0 && n > 0 && r.Ranks%n == 0 {
			r.Nodes = r.Ranks / n
		}
		return ""
	}, nil},
	{"gpus_per_rank", "", func(_ *csvRow, v string) string {
		if v != "1" {
			return fmt.Sprintf("%q (allowed: 1; elsewhere ranks are not GPUs)", v)
		}
		return ""
	}, nil},
	{name: "cost_metric"}, {name: "bandwidth_gbps"}, // the script does not use the first, nor say of what the second is
}

// csvRow is a row, and what it says of its setup.
type csvRow struct {
	row
	setup Setup
}

const (
	// sweepColumns is how many of them make the sweep format, setupColumns how many
	// where anything is known of the setup, floorColumns where that includes variables.
	sweepColumns = 17
	setupColumns = sweepColumns + 7
	floorColumns = setupColumns + 3
	colBytes     = 1
	colMicros    = 11
)

// columnByName finds columns by their names, folded, and columnNames are these names.
var columnByName, columnNames = func() (at map[string]int, names []string) {
	at = map[string]int{}
	for i, c := range csvColumns {
		names = append(names, c.name)
		for _, name := range append(strings.Fields(c.aliases), fold(c.name)) {
			at[name] = i
		}
	}
	return at, names
}()

func nameIn[T nccl.Algo | nccl.Proto](v string, into *T, parse func(string) (T, bool),
	unknown func(string, string) error) string {
	if strings.EqualFold(v, "default") || v == "-1" {
		return ""
	}
	read, ok := parse(v)
	if !ok {
		return unknown(v, "").Error()
	}
	*into = read
	return ""
}

func countIn(v string, into *int) string {
	const most = 1 << 30
	n, err := strconv.Atoi(v)
	if v != "-1" && (err != nil || n < 0 || n > most) {
		return wording.Quote(v) + " (allowed: 1 to 2^30; 0, -1 or empty where not known)"
	}
	*into = max(n, 0)
	return ""
}

func positive(_ *csvRow, v string) string {
	if n, err := strconv.Atoi(v); err != nil || n < 1 {
		return wording.Quote(v) + " (allowed: 1 or more, or empty)"
	}
	return ""
}

// grouped refuses what is not as usual.
func (r *csvRow) grouped(v string, usual ...string) string {
	if !slices.Contains(usual, v) {
		r.reason = cmp.Or(r.reason, rejectGrouped)
	}
	return ""
}

// written is a number as a field, empty where it is not known.
func written[T int | float64](n T) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(n), 'f', -1, 64)
}

// columnOf finds the column of a name. Some programs write both placements in one row; the first is read.
func columnOf(name string) (int, bool) {
	c, ok := columnByName[strings.TrimSuffix(fold(strings.TrimSpace(name)), "outofplace")]
	return c, ok
}

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

// csvReader reads CSV rows by the names of their columns. gocsv, which reads the project's policies,
// takes three times the processor time of encoding/csv.
type csvReader struct {
	r      *Result
	opts   Options
	at     [len(csvColumns)]int // place of each column in a row; -1: there is none
	named  int                  // columns of the header
	line   int
	fields []string
	source string // of the last row: many rows in turn have the same
	setups map[Setup]*Setup
	seen   map[measurement]int // how often it came without its start
	run    *run
}

func newCSV(r *Result, opts Options) *csvReader {
	s := &csvReader{r: r, opts: opts, setups: map[Setup]*Setup{}, seen: map[measurement]int{},
		run: newRun(r.File, 1, nil)}
	s.run.isCSV = true
	return s
}

func readCSV(in io.Reader, r *Result, opts Options) error {
	s, lines := newCSV(r, opts), csvtable.NewReader(in)
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
			s.fields = fields
			err = s.row()
		}
		if err != nil {
			return err
		}
	}
}

// readReport reads the reports of rccl-tests (-Z json): one object for each time, in a list or one after the other.
func readReport(in *bufio.Reader, r *Result, opts Options) error {
	s, decoder := newCSV(r, opts), json.NewDecoder(in)
	decoder.UseNumber()
	start, _ := in.Peek(64)
	inList := bytes.HasPrefix(bytes.TrimLeft(start, " \t\r\n"), []byte("["))
	if inList {
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
			names = slices.Sorted(maps.Keys(record))
			if err := s.header(names); err != nil {
				return err
			}
		}
		s.fields = s.fields[:0]
		for _, name := range names {
			s.fields = append(s.fields, fmt.Sprint(record[name]))
		}
		if err := s.row(); err != nil {
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
	s.run.close(s.opts)
	s.r.add(s.run)
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
		if s.at[c] >= 0 {
			continue
		}
		column := columnNames[c]
		word, _, _ := strings.Cut(column, "_") // size, time
		meant := wording.DidYouMean(column, names)
		i := slices.IndexFunc(names, func(n string) bool { return strings.Contains(fold(n), word) })
		if meant == "" && i >= 0 {
			meant = fmt.Sprintf("is it %q; ", names[i])
		}
		return fmt.Errorf("%s:%d: no column %s (%sallowed: %s)", s.r.File, s.line, column, meant, allowed)
	}
	s.run.tells = s.has("algorithm", "protocol", "channels", "selection")
	if s.has("pipeops", "costmetric") {
		s.r.Format = formatOptimize
	}
	if s.has("bandwidthgbps") {
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
func (s *csvReader) row() error {
	// rccl-tests with MPI names no column nodes, and writes one before ranks.
	if s.has("ranks") && s.has("numcycle") && !s.has("nodes") && len(s.fields) == s.named+1 {
		ranks := s.at[columnByName["ranks"]]
		for i := range s.at {
			if s.at[i] >= ranks {
				s.at[i]++
			}
		}
		s.at[columnByName["nodes"]] = ranks
	}
	if len(s.fields) == 1 && strings.TrimSpace(s.fields[0]) == "" {
		return nil
	}
	s.r.Rows++
	m := csvRow{row: row{Sample: Sample{Config: noLabel, Micros: math.NaN()}, root: -1, line: s.line, failed: true}}
	said := m.setup.fields()
	for c := range csvColumns {
		i, v, column := s.at[c], "", &csvColumns[c]
		if i >= 0 && i < len(s.fields) {
			v = strings.TrimSpace(s.fields[i])
		}
		switch isNeeded := c == colBytes || c == colMicros; {
		case isNeeded && i >= len(s.fields):
			s.unreadable(rejectTruncated, "the row ends before %s, its field %d", column.name, i+1)
			return nil
		case v == "" && c != colBytes:
			continue
		}
		if c >= sweepColumns && c < floorColumns {
			*said[c-sweepColumns] = v
		}
		if column.read == nil {
			continue
		}
		if wrong := column.read(&m, v); wrong != "" {
			s.unreadable(rejectMalformed, "%s: %s", column.name, wrong)
			return nil
		}
	}
	m.Setup = s.shared(m.setup)
	switch {
	case m.Selection == SelectionUnknown && m.Cell == nccl.NoCell && !strings.Contains(m.setup.Variables, unsure),
		m.Selection == SelectionDefault:
		if m.Selection = SelectionDefault; m.setup.Tuner != "" {
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
	s.count(&m.row)
	s.run.rows = append(s.run.rows, m.row)
	if err := s.r.tooMany(len(s.run.rows)); err != nil {
		return fmt.Errorf("%s:%d: %w", s.r.File, s.line, err)
	}
	const chunk = 1 << 16 // rows in memory
	if len(s.run.rows) == chunk {
		s.close()
	}
	return nil
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
	columns := sweepColumns
	for _, samples := range files {
		for i := range samples {
			switch setup := samples[i].Setup; {
			case setup == nil:
			case setup.MinChannels != "" || setup.MinCTAs != "" || setup.Variables != "":
				columns = floorColumns
			default:
				columns = max(columns, setupColumns)
			}
		}
	}
	out := csv.NewWriter(w)
	_ = out.Write(columnNames[:columns]) // Error has it, at the end
	for _, samples := range files {
		for i := range samples {
			fields, setup := make([]string, 0, columns), cmp.Or(samples[i].Setup, &Setup{})
			for c := range sweepColumns {
				fields = append(fields, csvColumns[c].write(&samples[i]))
			}
			for _, said := range setup.fields()[:columns-sweepColumns] {
				fields = append(fields, *said)
			}
			_ = out.Write(fields)
		}
	}
	out.Flush()
	return out.Error()
}
