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

// csvReader reads CSV rows by the names of their columns. gocsv, which reads the project's policies,
// takes three times the processor time of encoding/csv.
type csvReader struct {
	r      *Result
	in     *csv.Reader
	at     [numColumns]int // place of each column in a row; -1: there is none
	line   int
	fields []string
	source string // of the last row: many rows in turn have the same

	setups map[Setup]*Setup
	hint   *mention            // in the name of the file, where no column tells who chose
	tells  bool                // a column does
	named  int                 // columns of the header
	run    *testRun            // of rows without a collective
	seen   map[measurement]int // how often it came without its start
}

func readCSV(in io.Reader, r *Result) error {
	s := &csvReader{r: r, in: csvtable.NewReader(in), setups: map[Setup]*Setup{}, seen: map[measurement]int{},
		run: &testRun{line: 1, isCSV: true}}
	s.in.ReuseRecord, s.in.TrimLeadingSpace = true, true
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
		if err := r.tooMany(len(s.run.rows)); err != nil {
			return fmt.Errorf("%s:%d: %w", r.File, s.line, err)
		}
	}
	return s.finish()
}

func (s *csvReader) finish() error {
	r := s.r
	s.run.finish(r)
	if len(r.Samples) == 0 && len(r.Rejected) == 0 && len(r.Failed) == 0 {
		return fmt.Errorf("%s: no row after the header", r.File)
	}
	return nil
}

// unread says where reading has ended.
func (s *csvReader) unread(err error) error {
	var refused *csvtable.RowError
	if errors.As(err, &refused) {
		return fmt.Errorf("%s:%d: %s", s.r.File, refused.Line, refused.Text)
	}
	return fmt.Errorf("%s: after line %d: %w", s.r.File, s.line, err)
}

// readReport reads the reports of rccl-tests (-Z json): one object for each time, in a list or one after the other.
func readReport(in *bufio.Reader, r *Result) error {
	s := &csvReader{r: r, setups: map[Setup]*Setup{}, seen: map[measurement]int{}, run: &testRun{line: 1, isCSV: true}}
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
		if err := r.tooMany(len(s.run.rows)); err != nil {
			return fmt.Errorf("%s: record %d: %w", r.File, s.line, err)
		}
	}
	return s.finish()
}

// column is what a column of a CSV file means, whatever its name.
type column int

const (
	colCollective column = iota
	colBytes
	colDType
	colRedOp
	colAlgo
	colProto
	colChannels
	colNodes
	colRanks
	colInPlace
	colSelection
	colMicros
	colAlgBW
	colBusBW
	colSource
	colStart
	colPass
	// Of Setup, left out of files that know nothing of it.
	colGPU
	colHosts
	colNCCL
	colDriver
	colTime
	colTuner
	colOptions
	// The same, left out of files without any.
	colMinChannels
	colMinCTAs
	colVariables
	colWrong
	// optimize_config.py's own.
	colCycle // of rccl-tests, from 0
	colPipeOps
	colRegBuff
	colPerNode   // ranks of a node
	colPerRank   // GPUs of a rank, in rccl-tests' reports
	colCost      // the script does not use it
	colBandwidth // it does not say of what
	numColumns
)

// columnNames are the sweep format's, in its order, and those that only other
// files have.
var columnNames = [numColumns]string{
	"collective", "size_bytes", "dtype", "redop", "algorithm", "protocol", "channels", "nodes", "ranks", "inplace",
	"selection",
	"time_us", "algbw_gbps", "busbw_gbps", "source", "start", "pass", "gpu_model", "hosts", "nccl_version",
	"driver_version",
	"measured_at", "tuner", "options", "min_nchannels", "min_ctas", "variables", "wrong", "numCycle", "pipeOps",
	"regBuff",
	"ranks_per_node", "gpus_per_rank", "cost_metric", "bandwidth_gbps",
}

const (
	// sweepColumns is how many of them make the sweep format, setupColumns how many
	// where anything is known of the setup, floorColumns where that includes variables.
	sweepColumns = int(colPass) + 1
	setupColumns = int(colOptions) + 1
	floorColumns = int(colVariables) + 1
)

var columnByName = func() map[string]column {
	m := map[string]column{
		"coll": colCollective, "size": colBytes, "size(b)": colBytes, "bytes": colBytes, "type": colDType,
		"op": colRedOp, "name": colCollective, "time": colMicros, "gpus": colRanks, "devicespernode": colPerNode,
		"gputype": colGPU,
		"algo":    colAlgo, "proto": colProto, "nchannels": colChannels, "nnodes": colNodes, "nranks": colRanks,
		"latencyus": colMicros, "time(us)": colMicros, "algbw": colAlgBW, "algbwgbs": colAlgBW, "algbw(gb/s)": colAlgBW,
		"busbw": colBusBW, "busbwgbs": colBusBW, "busbw(gb/s)": colBusBW, "#wrong": colWrong, "numpipeops": colPipeOps,
	}
	for i, name := range columnNames {
		m[fold(name)] = column(i)
	}
	return m
}()

// columnOf finds the column of a name. Some programs write both placements in one row; the first is read.
func columnOf(name string) (column, bool) {
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

func (s *csvReader) header(line int, names []string) error {
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
			if meant := wording.Nearest(name, columnNames[:]); meant != "" {
				column += fmt.Sprintf(" (did you mean %q?)", meant)
			}
			if len(unused) < mostNotes {
				unused = append(unused, column)
			}
		case s.at[c] >= 0:
			return fmt.Errorf("%s:%d:%d: column %s is named twice", s.r.File, line, i+1, columnNames[c])
		default:
			s.at[c] = i
		}
	}
	if unused != nil {
		s.r.note(line, "not used: column %s (allowed: %s)", strings.Join(unused, ", "),
			strings.Join(columnNames[:sweepColumns], ", "))
	}
	for _, c := range []column{colBytes, colMicros} {
		if s.at[c] >= 0 {
			continue
		}
		meant := wording.DidYouMean(columnNames[c], names)
		word, _, _ := strings.Cut(columnNames[c], "_") // size, time
		i := slices.IndexFunc(names, func(n string) bool { return strings.Contains(fold(n), word) })
		if meant == "" && i >= 0 {
			meant = fmt.Sprintf("is it %q; ", names[i])
		}
		return fmt.Errorf("%s:%d: no column %s (%sallowed: %s)", s.r.File, line, columnNames[c], meant,
			strings.Join(columnNames[:sweepColumns], ", "))
	}
	s.tells = max(s.at[colAlgo], s.at[colProto], s.at[colChannels], s.at[colSelection]) >= 0
	if !s.tells && !s.r.opts.Default && s.r.opts.Config == nil {
		s.hint = wordInName(s.r.File)
	}
	if s.at[colPipeOps] >= 0 || s.at[colCost] >= 0 {
		s.r.Format = formatOptimize
	}
	if s.at[colBandwidth] >= 0 {
		s.r.note(line, "bandwidth_gbps is not used: the format does not say which bandwidth it is")
	}
	return nil
}

// field returns a field without blanks around it; empty where there is none.
func (s *csvReader) field(c column) string {
	i := s.at[c]
	if i < 0 || i >= len(s.fields) {
		return ""
	}
	return strings.TrimSpace(s.fields[i])
}

// bad counts a row that has a field which cannot be read.
func (s *csvReader) bad(c column, format string, args ...any) {
	s.unreadable(rejectMalformed, "%s: %s", columnNames[c], fmt.Sprintf(format, args...))
}

// unreadable counts a row that cannot be read.
func (s *csvReader) unreadable(reason, format string, args ...any) {
	s.r.reject(s.line, 1, reason)
	s.r.note(s.line, format, args...)
}

// row reads one line.
func (s *csvReader) row() {
	// rccl-tests with MPI names no column nodes, and writes one before ranks.
	if at := s.at[colRanks]; s.at[colCycle] >= 0 && s.at[colNodes] < 0 && at >= 0 && len(s.fields) == s.named+1 {
		for i := range s.at {
			if s.at[i] >= at {
				s.at[i]++
			}
		}
		s.at[colNodes] = at
	}
	if len(s.fields) == 1 && strings.TrimSpace(s.fields[0]) == "" {
		return
	}
	s.r.Rows++
	for _, c := range []column{colBytes, colMicros} {
		if len(s.fields) <= s.at[c] {
			s.unreadable(rejectTruncated, "the row ends before %s, its field %d", columnNames[c], s.at[c]+1)
			return
		}
	}
	m := row{Sample: Sample{Config: noLabel}, root: -1, line: s.line}
	var err error
	if m.Bytes, err = strconv.ParseUint(s.field(colBytes), 10, 64); err != nil {
		s.bad(colBytes, "%s is not a number of bytes", wording.Quote(s.field(colBytes)))
		return
	}
	if m.Micros, err = strconv.ParseFloat(s.field(colMicros), 64); err != nil {
		if v := s.field(colMicros); v != "" && v != "N/A" && !errors.Is(err, strconv.ErrRange) {
			s.bad(colMicros, "%s is not a number of microseconds (allowed: as 41.5)", wording.Quote(v))
			return
		}
		m.Micros = math.NaN()
	}
	m.AlgBW = bandwidth(s.field(colAlgBW))
	m.BusBW = bandwidth(s.field(colBusBW))
	if !s.configuration(&m.Sample) {
		return
	}
	for _, c := range []column{colMinChannels, colMinCTAs} {
		v := s.field(c)
		if v == "" {
			continue
		}
		if n, err := strconv.Atoi(v); err != nil || n < 1 {
			s.bad(c, "%s (allowed: 1 or more, or empty)", wording.Quote(v))
			return
		}
	}
	if m.Setup = s.setup(); m.Setup != nil && m.Setup.Tuner != "" && m.Selection == SelectionDefault {
		m.Selection = SelectionForced // by the tuner
	}
	m.DType = kept(s.field(colDType))
	op := s.field(colRedOp)
	if _, isColl := collByName[fold(op)]; isColl {
		s.bad(colRedOp, "%s is a collective (allowed: a reduction, as sum; the column of collectives is collective)",
			op)
		return
	}
	if op != "none" {
		m.RedOp = kept(op)
	}
	if in := s.field(colInPlace); in != "" {
		if m.InPlace, err = strconv.ParseBool(in); err != nil {
			s.bad(colInPlace, "%s (allowed: 0, 1 or empty)", wording.Quote(in))
			return
		}
	}
	if m.Source = s.field(colSource); m.Source != "" {
		if m.Source != s.source {
			s.source = strings.Clone(m.Source) // the record is one long string
		}
		m.Source = s.source
		m.Simulated = strings.HasPrefix(m.Source, simulatedPrefix)
		m.Verify = strings.HasPrefix(strings.TrimPrefix(m.Source, simulatedPrefix), verifyWord+":")
	} else {
		m.Source = s.r.File + ":" + strconv.Itoa(s.line)
	}
	switch wrong := s.field(colWrong); {
	case wrong != "" && wrong != "0" && wrong != "N/A":
		m.reason = rejectFailed
	case s.grouped():
		m.reason = rejectGrouped
	case s.hint != nil:
		s.r.unknown[s.hint.String()] = *s.hint
		m.Selection = SelectionUnknown
		with := *cmp.Or(m.Setup, &Setup{})
		with.Variables = strings.TrimSpace(with.Variables + " " + s.hint.String())
		m.Setup = s.shared(with)
	case !s.tells && s.r.opts.Config == nil:
		s.r.Assumed++
	}
	m.check()
	s.keep(m)
}

// setup returns what the row says of its setup; nil: nothing. Rows that say the same share it.
func (s *csvReader) setup() *Setup {
	var said Setup
	for i, field := range said.fields() {
		*field = s.field(column(sweepColumns + i))
	}
	return s.shared(said)
}

// shared returns the one copy of a setup that many rows have.
func (s *csvReader) shared(said Setup) *Setup {
	setup, known := s.setups[said]
	if !known {
		setup = said.clean()
		s.setups[said] = setup
	}
	return setup
}

// keep adds a row, once its collective is known.
func (s *csvReader) keep(m row) {
	name := s.field(colCollective)
	if name == "" {
		s.run.rows = append(s.run.rows, m)
		return
	}
	coll, known := collByName[fold(name)]
	if !known {
		s.bad(colCollective, "%v", nccl.Colls.Unknown(name, ""))
		return
	}
	if m.reason == "" && coll < 0 {
		m.reason = fmt.Sprintf(rejectNotAsked, fold(name))
	}
	if s.field(colMicros) == "" && m.Selection == SelectionForced && coll >= 0 { // see WriteTidy
		m.Coll, m.Micros = coll, 0
		s.r.Failed = append(s.r.Failed, m.Sample)
		return
	}
	if m.reason != "" {
		s.r.reject(s.line, 1, m.reason)
		return
	}
	m.Coll = coll
	m.Nodes, m.Ranks = cmp.Or(m.Nodes, s.r.opts.Nodes), cmp.Or(m.Ranks, s.r.opts.Ranks)
	from := originNone
	if s.r.opts.Config != nil {
		from = s.run.label(s.r, &m, logKey{}, 1, s.r.claims(nil, ""), false)
	} else if m.Config != noLabel {
		from = originFields
	} else if s.hint != nil {
		from = originAsked
	}
	s.count(&m.Sample)
	s.r.add(s.line, m.Sample, from)
}

// measurement is what one pass measures once.
type measurement struct {
	file string
	Series
	nccl.Config
	Selection
	bytes uint64
}

// count counts the starts of a file that does not: a start has one pass then, so a repetition is of another one.
func (s *csvReader) count(m *Sample) {
	if cycle, err := strconv.Atoi(s.field(colCycle)); err == nil && cycle >= 0 && m.Pass == 0 {
		m.Pass = cycle + 1
		m.Start = max(m.Start, 1)
	}
	m.Pass = max(m.Pass, 1)
	if m.Start > 0 {
		return
	}
	of := measurement{m.File(), m.Series(), m.Config, m.Selection, m.Bytes}
	s.seen[of]++
	m.Start = s.seen[of]
}

// configuration reads what ran and on how many nodes and ranks.
func (s *csvReader) configuration(m *Sample) bool {
	var ok bool
	if v := s.field(colAlgo); v != "" && !strings.EqualFold(v, "default") && v != "-1" {
		if m.Algo, ok = parseAlgo(v); !ok {
			s.bad(colAlgo, "%v", nccl.Algos.Unknown(v, ""))
			return false
		}
	}
	if v := s.field(colProto); v != "" && !strings.EqualFold(v, "default") && v != "-1" {
		if m.Proto, ok = parseProto(v); !ok {
			s.bad(colProto, "%v", nccl.Protos.Unknown(v, ""))
			return false
		}
	}
	for _, number := range []struct {
		c    column
		into *int
	}{{colChannels, &m.Channels}, {colNodes, &m.Nodes}, {colRanks, &m.Ranks}, {colStart, &m.Start},
		{colPass, &m.Pass}} {
		v := s.field(number.c)
		if v == "" || v == "-1" {
			continue
		}
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 || n > 1<<30 {
			s.bad(number.c, "%s (allowed: 1 to 2^30; 0, -1 or empty where not known)", wording.Quote(v))
			return false
		}
		*number.into = n
	}
	perNode, _ := strconv.Atoi(s.field(colPerNode)) // 0: there is none
	if m.Nodes == 0 && perNode > 0 && m.Ranks%perNode == 0 {
		m.Nodes = m.Ranks / perNode
	}
	if v := s.field(colPerRank); v != "" && v != "1" {
		s.bad(colPerRank, "%q (allowed: 1; elsewhere ranks are not GPUs)", v)
		return false
	}
	i := slices.Index(selections[:], s.field(colSelection))
	if i < 0 {
		s.bad(colSelection, "%s (allowed: forced, own_channels, default or empty)",
			wording.Quote(s.field(colSelection)))
		return false
	}
	m.Selection = Selection(i)
	if m.Selection == SelectionUnknown && m.Cell == nccl.NoCell && !strings.Contains(s.field(colVariables), unsure) {
		m.Selection = SelectionDefault
	}
	return true
}

// grouped reports rows of optimize_config's format that measured several
// operations in one launch or registered buffers, which a sample cannot say.
func (s *csvReader) grouped() bool {
	pipeOps, regBuff := s.field(colPipeOps), s.field(colRegBuff)
	return pipeOps != "" && pipeOps != "-1" && pipeOps != "1" && pipeOps != "0" ||
		regBuff != "" && regBuff != "-1" && regBuff != "0"
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
			_ = out.Write(samples[i].tidy(columns))
		}
	}
	out.Flush()
	return out.Error()
}

// tidy returns the sample's fields, in columnNames' order.
func (s *Sample) tidy(columns int) []string {
	known := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	measured := func(v float64) string {
		if v == 0 { // of what failed
			return ""
		}
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	fields := []string{
		colCollective: nccl.Colls.Apart[s.Coll], colBytes: strconv.FormatUint(s.Bytes, 10), colDType: s.DType,
		colRedOp:    s.RedOp,
		colChannels: known(s.Channels), colNodes: known(s.Nodes), colRanks: known(s.Ranks), colInPlace: "0",
		colSelection: selections[s.Selection],
		colMicros:    measured(s.Micros), colAlgBW: measured(s.AlgBW), colBusBW: measured(s.BusBW), colSource: s.Source,
		colStart: known(s.Start), colPass: known(s.Pass),
	}
	if s.Algo != Unknown {
		fields[colAlgo] = s.Algo.String()
	}
	if s.Proto != Unknown {
		fields[colProto] = s.Proto.String()
	}
	if s.InPlace {
		fields[colInPlace] = "1"
	}
	if s.Simulated && !strings.HasPrefix(s.Source, simulatedPrefix) {
		fields[colSource] = simulatedPrefix + s.Source
	}
	setup := cmp.Or(s.Setup, &Setup{}) // without any its fields are empty
	for _, said := range setup.fields()[:columns-sweepColumns] {
		fields = append(fields, *said)
	}
	return fields
}
