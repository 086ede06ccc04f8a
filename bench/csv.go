package bench

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/agext/levenshtein"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/suggest"
)

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
	// Of Setup, left out of files that know nothing of it.
	colGPU
	colHosts
	colNCCL
	colDriver
	colTime
	colTuner
	colWrong
	// optimize_config.py's own.
	colPipeOps
	colRegBuff
	colCost      // the script does not use it
	colBandwidth // it does not say of what
	numColumns
)

// columnNames are the sweep format's, in its order, and those that only other
// files have.
var columnNames = [numColumns]string{
	"collective", "size_bytes", "dtype", "redop", "algorithm", "protocol", "channels", "nodes", "ranks", "inplace", "selection",
	"time_us", "algbw_gbps", "busbw_gbps", "source", "gpu_model", "hosts", "nccl_version", "driver_version", "measured_at", "tuner", "wrong", "pipeOps", "regBuff", "cost_metric", "bandwidth_gbps",
}

const (
	// sweepColumns is how many of them make the sweep format, setupColumns how many
	// where anything is known of the setup.
	sweepColumns = int(colSource) + 1
	setupColumns = int(colTuner) + 1
)

var columnByName = func() map[string]column {
	m := map[string]column{
		"coll": colCollective, "size": colBytes, "size(b)": colBytes, "bytes": colBytes, "type": colDType, "op": colRedOp,
		"algo": colAlgo, "proto": colProto, "nchannels": colChannels, "nnodes": colNodes, "nranks": colRanks,
		"latencyus": colMicros, "time(us)": colMicros, "algbw": colAlgBW, "algbwgbs": colAlgBW, "algbw(gb/s)": colAlgBW,
		"busbw": colBusBW, "busbwgbs": colBusBW, "busbw(gb/s)": colBusBW, "#wrong": colWrong, "numpipeops": colPipeOps,
	}
	for i, name := range columnNames {
		m[fold(name)] = column(i)
	}
	return m
}()

// looksLikeCSV reports whether the first line that is neither blank nor a
// comment names a size and a time, or the columns of something else.
func looksLikeCSV(start []byte) bool {
	for line := range bytes.Lines(start) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		known := 0
		for cell := range strings.SplitSeq(string(line), ",") {
			if _, ok := columnByName[fold(strings.Trim(cell, `" `))]; ok {
				known++
			}
		}
		return known >= 2
	}
	return false
}

// sweep reads CSV rows by the names of their columns. It uses encoding/csv with
// one reused record: gocsv, which reads the project's policies, took three times
// the processor time for a million rows (2.5 s against 0.9 s).
type sweep struct {
	r     *Result
	opts  Options
	in    *csv.Reader
	at    [numColumns]int // place of each column in a row; -1: there is none
	line  int
	cells []string

	interned map[string]string
	colls    map[string]nccl.Coll
	setups   map[Setup]*Setup
	hasSetup bool // a column of it is there
	// named is what the file's name says where no column holds a label.
	named named
	run   *run // of rows without a collective
}

func readCSV(in *bufio.Reader, r *Result, opts Options) error {
	s := &sweep{r: r, opts: opts, in: csv.NewReader(in), interned: map[string]string{}, colls: map[string]nccl.Coll{}, setups: map[Setup]*Setup{}, run: &run{line: 1, cells: true}}
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
	for {
		s.cells, err = s.in.Read()
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
			return fmt.Errorf("%s:%d: %w", r.File, s.line, err)
		}
		s.line, _ = s.in.FieldPos(0)
		s.row()
	}
	s.run.finish(r, opts, &environment{}, OriginNone)
	r.sortMalformed()
	if r.Kept == 0 && len(r.Rejected) == 0 && len(r.Failed) == 0 {
		return fmt.Errorf("%s: no row after the header", r.File)
	}
	return nil
}

func (s *sweep) header(names []string) error {
	line, _ := s.in.FieldPos(0)
	for i := range s.at {
		s.at[i] = -1
	}
	for i, name := range names {
		c, ok := columnByName[fold(strings.TrimSpace(name))]
		switch {
		case !ok:
			s.r.note(line, "column %q is not used (%sallowed: %s)", name, suggest.DidYouMean(name, columnNames[:]), strings.Join(columnNames[:sweepColumns], ", "))
		case s.at[c] >= 0:
			return fmt.Errorf("%s:%d:%d: column %s is named twice", s.r.File, line, i+1, columnNames[c])
		default:
			s.at[c] = i
		}
	}
	for _, c := range []column{colBytes, colMicros} {
		if s.at[c] >= 0 {
			continue
		}
		return fmt.Errorf("%s:%d: no column %s (%sallowed: %s)", s.r.File, line, columnNames[c], meant(columnNames[c], names), strings.Join(columnNames[:sweepColumns], ", "))
	}
	for c := column(sweepColumns); c < column(setupColumns); c++ {
		s.hasSetup = s.hasSetup || s.at[c] >= 0
	}
	s.named = named{label: noLabel}
	if s.at[colAlgo] < 0 && s.at[colProto] < 0 && s.at[colChannels] < 0 {
		s.named = labelsInName(s.r.File, s.opts.NamePattern)
	}
	if s.at[colPipeOps] >= 0 || s.at[colCost] >= 0 {
		s.r.Format = FormatOptimize
	}
	if s.at[colBandwidth] >= 0 {
		s.r.note(line, "bandwidth_gbps is not used: the format does not say which bandwidth it is")
	}
	return nil
}

// meant returns a hint where one of the names may be a misspelt column.
func meant(missing string, names []string) string {
	for _, name := range names {
		if _, known := columnByName[fold(name)]; !known && levenshtein.Distance(fold(name), fold(missing), nil) < 3 {
			return fmt.Sprintf("did you mean it by %q; ", name)
		}
	}
	return ""
}

// cell returns a cell without blanks around it; empty where there is none.
func (s *sweep) cell(c column) string {
	i := s.at[c]
	if i < 0 || i >= len(s.cells) {
		return ""
	}
	v := s.cells[i]
	if len(v) > 0 && (v[0] == ' ' || v[len(v)-1] == ' ') {
		v = strings.TrimSpace(v)
	}
	return v
}

func (s *sweep) intern(v string) string {
	if kept, ok := s.interned[v]; ok {
		return kept
	}
	v = strings.Clone(v) // the record is one long string
	s.interned[v] = v
	return v
}

// bad counts a row that has a cell which cannot be read.
func (s *sweep) bad(c column, format string, args ...any) {
	s.unreadable(rejectMalformed, "%s: %s", columnNames[c], fmt.Sprintf(format, args...))
}

// unreadable counts a row that cannot be read.
func (s *sweep) unreadable(reason, format string, args ...any) {
	s.r.reject(s.line, 1, reason)
	s.r.malformed(s.line, fmt.Sprintf(format, args...))
}

// row reads one line.
func (s *sweep) row() {
	if len(s.cells) == 1 && strings.TrimSpace(s.cells[0]) == "" {
		return
	}
	s.r.Rows++
	if need := max(s.at[colBytes], s.at[colMicros]); len(s.cells) <= need {
		s.unreadable(rejectTruncated, "the row ends before %s, its cell %d", columnNames[s.columnAt(need)], need+1)
		return
	}
	m := Sample{Algo: Unknown, Proto: Unknown}
	var err error
	if m.Bytes, err = strconv.ParseUint(s.cell(colBytes), 10, 64); err != nil {
		s.bad(colBytes, "%q is no number of bytes", s.cell(colBytes))
		return
	}
	if m.Micros, err = strconv.ParseFloat(s.cell(colMicros), 64); err != nil {
		if v := s.cell(colMicros); v != "" && v != "N/A" && !errors.Is(err, strconv.ErrRange) {
			s.bad(colMicros, "%q is no number of microseconds (allowed: as 41.5)", v)
			return
		}
		m.Micros = math.NaN()
	}
	m.AlgBW = bandwidth(s.cell(colAlgBW))
	m.BusBW = bandwidth(s.cell(colBusBW))
	if !s.configuration(&m) {
		return
	}
	if m.Setup = s.setup(); m.Setup != nil && m.Setup.Tuner != "" && m.Selection == SelectionDefault {
		m.Selection = SelectionForced // by the tuner
	}
	m.DType = s.intern(s.cell(colDType))
	if op := s.cell(colRedOp); op != "none" {
		m.RedOp = s.intern(op)
	}
	if in := s.cell(colInPlace); in != "" {
		if m.InPlace, err = strconv.ParseBool(in); err != nil {
			s.bad(colInPlace, "%q (allowed: 0, 1 or empty)", in)
			return
		}
	}
	if m.Source = s.cell(colSource); m.Source != "" {
		m.Source = s.intern(m.Source)
		m.Simulated = strings.HasPrefix(m.Source, simulatedPrefix)
		m.Verify = strings.HasPrefix(strings.TrimPrefix(m.Source, simulatedPrefix), verifyWord+":")
	} else {
		m.Source = s.r.File + ":" + strconv.Itoa(s.line)
	}
	reason := ""
	switch wrong := s.cell(colWrong); {
	case wrong != "" && wrong != "0" && wrong != "N/A":
		reason = rejectFailed
	case s.grouped():
		reason = rejectGrouped
	case m.Bytes == 0:
		reason = rejectZeroSize
	default:
		reason = checkTime(m.Bytes, m.Micros, m.AlgBW)
	}
	s.keep(m, reason)
}

// columnAt returns the column at a place of a row.
func (s *sweep) columnAt(i int) column {
	if s.at[colBytes] == i {
		return colBytes
	}
	return colMicros
}

// setup returns what the row says of its setup; nil: nothing.
func (s *sweep) setup() *Setup {
	if !s.hasSetup {
		return nil
	}
	var said Setup
	for c := column(sweepColumns); c < column(setupColumns); c++ {
		*said.column(c) = s.cell(c)
	}
	if said == (Setup{}) {
		return nil
	}
	kept := s.setups[said]
	if kept == nil {
		kept = &Setup{}
		for c := column(sweepColumns); c < column(setupColumns); c++ {
			*kept.column(c) = strings.Clone(*said.column(c)) // the record is one long string
		}
		s.setups[*kept] = kept
	}
	return kept
}

// keep adds a row, once its collective is known.
func (s *sweep) keep(m Sample, reason string) {
	name := s.cell(colCollective)
	coll, known := s.colls[name]
	switch {
	case name == "":
		s.run.rows = append(s.run.rows, row{
			bytes: m.Bytes, dtype: m.DType, redop: m.RedOp, root: -1, micros: m.Micros, algBW: m.AlgBW, busBW: m.BusBW, inPlace: m.InPlace,
			reason: reason, line: s.line, source: m.Source, measured: label{m.Algo, m.Proto, m.Channels},
			nodes: m.Nodes, ranks: m.Ranks, selection: m.Selection, setup: m.Setup,
		})
		return
	case !known:
		coll, known = collByName[fold(name)]
		if !known {
			_, err := nccl.Colls.Parse(name)
			s.bad(colCollective, "%v", err)
			return
		}
		s.colls[strings.Clone(name)] = coll
	}
	if reason == "" && coll < 0 {
		reason = fmt.Sprintf(rejectNotAsked, fold(name))
	}
	if m.Bytes == 0 && s.cell(colMicros) == "" && m.Selection == SelectionForced && coll >= 0 { // see WriteTidy
		m.Coll, m.Micros = coll, 0
		s.r.Failed = append(s.r.Failed, m)
		return
	}
	if reason != "" {
		s.r.reject(s.line, 1, reason)
		return
	}
	m.Coll = coll
	m.Nodes, m.Ranks = firstPositive(m.Nodes, s.opts.Nodes), firstPositive(m.Ranks, s.opts.Ranks)
	from := OriginNone
	if s.named.label != noLabel {
		from = OriginFileName
		m.Algo, m.Proto, m.Channels = s.named.algo, s.named.proto, s.named.channels
		m.Selection = selection(s.named.claim().forces)
	} else if m.Algo != Unknown || m.Proto != Unknown || m.Channels != 0 {
		from = OriginCells
	}
	s.r.add(m, from)
}

// configuration reads what ran and on how many nodes and ranks.
func (s *sweep) configuration(m *Sample) bool {
	var ok bool
	if v := s.cell(colAlgo); v != "" && !strings.EqualFold(v, "default") && v != "-1" {
		if m.Algo, ok = parseAlgo(v); !ok {
			_, err := nccl.Algos.Parse(v)
			s.bad(colAlgo, "%v", err)
			return false
		}
	}
	if v := s.cell(colProto); v != "" && !strings.EqualFold(v, "default") && v != "-1" {
		if m.Proto, ok = parseProto(v); !ok {
			_, err := nccl.Protos.Parse(v)
			s.bad(colProto, "%v", err)
			return false
		}
	}
	for _, number := range []struct {
		c    column
		into *int
	}{{colChannels, &m.Channels}, {colNodes, &m.Nodes}, {colRanks, &m.Ranks}} {
		v := s.cell(number.c)
		if v == "" || v == "-1" {
			continue
		}
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 || n > 1<<30 {
			s.bad(number.c, "%q (allowed: 1 or more; 0, -1 or empty where not known)", v)
			return false
		}
		*number.into = n
	}
	switch v := s.cell(colSelection); v {
	case "forced":
		m.Selection = SelectionForced
	case "default":
		m.Selection = SelectionDefault
	case "":
		if m.Algo == Unknown && m.Proto == Unknown && m.Channels == 0 {
			m.Selection = SelectionDefault
		}
	default:
		s.bad(colSelection, "%q (allowed: forced, default or empty)", v)
		return false
	}
	return true
}

// grouped reports rows of optimize_config's format that measured several
// operations in one launch or registered buffers, which a sample cannot say.
func (s *sweep) grouped() bool {
	pipeOps, regBuff := s.cell(colPipeOps), s.cell(colRegBuff)
	return pipeOps != "" && pipeOps != "-1" && pipeOps != "1" && pipeOps != "0" || regBuff != "" && regBuff != "-1" && regBuff != "0"
}
