package bench

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
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
	colOptions
	// The same, left out of files without any.
	colMinChannels
	colMinCTAs
	colVariables
	colWrong
	// optimize_config.py's own.
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
	"time_us", "algbw_gbps", "busbw_gbps", "source", "gpu_model", "hosts", "nccl_version", "driver_version",
	"measured_at", "tuner", "options", "min_nchannels", "min_ctas", "variables", "wrong", "pipeOps", "regBuff",
	"ranks_per_node", "gpus_per_rank", "cost_metric", "bandwidth_gbps",
}

const (
	// sweepColumns is how many of them make the sweep format, setupColumns how many
	// where anything is known of the setup, floorColumns where that includes variables.
	sweepColumns = int(colSource) + 1
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

func (s *sweep) header(line int, names []string) error {
	for i := range s.at {
		s.at[i] = -1
	}
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
		if s.hint = hintInName(s.r.File); s.hint != "" {
			s.r.note(line, "not labelled: %s", s.hint)
		}
	}
	if s.at[colPipeOps] >= 0 || s.at[colCost] >= 0 {
		s.r.Format = formatOptimize
	}
	if s.at[colBandwidth] >= 0 {
		s.r.note(line, "bandwidth_gbps is not used: the format does not say which bandwidth it is")
	}
	return nil
}
