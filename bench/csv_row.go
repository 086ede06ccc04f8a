package bench

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// field returns a field without blanks around it; empty where there is none.
func (s *sweep) field(c column) string {
	i := s.at[c]
	if i < 0 || i >= len(s.fields) {
		return ""
	}
	return strings.TrimSpace(s.fields[i])
}

// bad counts a row that has a field which cannot be read.
func (s *sweep) bad(c column, format string, args ...any) {
	s.unreadable(rejectMalformed, "%s: %s", columnNames[c], fmt.Sprintf(format, args...))
}

// unreadable counts a row that cannot be read.
func (s *sweep) unreadable(reason, format string, args ...any) {
	s.r.reject(s.line, 1, reason)
	s.r.note(s.line, format, args...)
}

// row reads one line.
func (s *sweep) row() {
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
	case s.hint != "":
		m.reason = rejectHint
	case !s.tells && s.r.opts.Config == nil:
		s.r.Assumed++
	}
	m.check()
	s.keep(m)
}

// setup returns what the row says of its setup; nil: nothing.
func (s *sweep) setup() *Setup {
	var said Setup
	for i, field := range said.fields() {
		*field = s.field(column(sweepColumns + i))
	}
	if said == (Setup{}) {
		return nil
	}
	if s.setups[said] == nil {
		kept := said
		for _, field := range kept.fields() {
			*field = wording.Line(*field)
		}
		kept.nameRCCL()
		s.setups[said] = &kept
	}
	return s.setups[said]
}

// keep adds a row, once its collective is known.
func (s *sweep) keep(m row) {
	name := s.field(colCollective)
	if name == "" {
		s.run.rows = append(s.run.rows, m)
		return
	}
	coll, known := collByName[fold(name)]
	if !known {
		_, err := nccl.Colls.Parse(name)
		s.bad(colCollective, "%v", err)
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
		from = s.run.label(s.r, &m, "", 1, s.r.claims(&environment{}, ""), "")
	} else if m.Config != noLabel {
		from = originFields
	}
	s.r.add(s.line, m.Sample, from)
}

// configuration reads what ran and on how many nodes and ranks.
func (s *sweep) configuration(m *Sample) bool {
	var ok bool
	if v := s.field(colAlgo); v != "" && !strings.EqualFold(v, "default") && v != "-1" {
		if m.Algo, ok = parseAlgo(v); !ok {
			_, err := nccl.Algos.Parse(v)
			s.bad(colAlgo, "%v", err)
			return false
		}
	}
	if v := s.field(colProto); v != "" && !strings.EqualFold(v, "default") && v != "-1" {
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
	if m.Selection == SelectionUnknown && m.Cell == nccl.NoCell {
		m.Selection = SelectionDefault
	}
	return true
}

// grouped reports rows of optimize_config's format that measured several
// operations in one launch or registered buffers, which a sample cannot say.
func (s *sweep) grouped() bool {
	pipeOps, regBuff := s.field(colPipeOps), s.field(colRegBuff)
	return pipeOps != "" && pipeOps != "-1" && pipeOps != "1" && pipeOps != "0" ||
		regBuff != "" && regBuff != "-1" && regBuff != "0"
}
