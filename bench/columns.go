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

// column is one of a CSV file, of the table that nccl-tests prints, or a member of a result in JSON.
type column struct {
	name    string
	aliases string // in files of others, folded
	// read takes a field that is not blank, and returns what is wrong with it; nil: it is of Setup, or not used.
	read func(r *row, v string) string
	// write is the field of a sample; nil: it is a field of Setup, or the sweep format does not have it.
	write func(s *Sample) string
}

// row is one time of a run, half a line of nccl-tests. It is a sample that the end of the run completes.
type row struct {
	Sample            // what the row says itself, its configuration as in RCCL's columns or a CSV file's fields
	count      uint64 // elements as nccl-tests counts them; 0: not known
	root       int    // -1: none
	checked    bool   // the result was compared
	blankRedOp bool   // the row leaves out columns of its header
	reason     string // why it cannot be used; empty: it can
	line       int
	// Of a CSV file: op is what the row says that it is of, failed that it ran in vain.
	op     operation
	failed bool
}

// newRow is a row of a line, of which nothing is known.
func newRow(line int) row {
	return row{Sample: Sample{Config: noLabel, Micros: math.NaN()}, root: -1, line: line}
}

// columns are the sweep format's, in its order, and those that only other files have.
var columns = [...]column{
	{"collective", "coll name", func(r *row, v string) string {
		r.op = operation(fold(v))
		if _, known := collByName[string(r.op)]; !known {
			return nccl.Colls.Unknown(v, "").Error()
		}
		return ""
	}, func(s *Sample) string { return nccl.Colls.Apart[s.Coll] }},
	{"size_bytes", "size size(b) bytes", func(r *row, v string) (wrong string) {
		var err error
		if r.Bytes, err = strconv.ParseUint(v, 10, 64); err != nil {
			return wording.Quote(v) + " is not a number of bytes"
		}
		return ""
	}, func(s *Sample) string { return strconv.FormatUint(s.Bytes, 10) }},
	{"dtype", "type", func(r *row, v string) string { r.DType = kept(v); return "" },
		func(s *Sample) string { return s.DType }},
	{"redop", "op", func(r *row, v string) string {
		if _, isColl := collByName[fold(v)]; isColl {
			return v + " is a collective (allowed: a reduction, as sum; the column of collectives is collective)"
		}
		r.RedOp = strings.TrimPrefix(kept(v), "none")
		return ""
	}, func(s *Sample) string { return s.RedOp }},
	{"algorithm", "algo", func(r *row, v string) string { return nameIn(v, &r.Algo, algoNamed(v), nccl.Algos) },
		func(s *Sample) string { return nameOf(s.Algo) }},
	{"protocol", "proto",
		func(r *row, v string) string { return nameIn(v, &r.Proto, parseLabel(nccl.Protos, v), nccl.Protos) },
		func(s *Sample) string { return nameOf(s.Proto) }},
	number("channels", "nchannels", func(s *Sample) *int { return &s.Channels }),
	number("nodes", "nnodes", func(s *Sample) *int { return &s.Nodes }),
	number("ranks", "nranks gpus", func(s *Sample) *int { return &s.Ranks }),
	{"inplace", "", func(r *row, v string) string {
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
	{"selection", "", func(r *row, v string) string {
		i := slices.Index(selections[:], v)
		if i < 0 {
			return wording.Quote(v) + " (allowed: forced, own_channels, default or empty)"
		}
		r.Selection = Selection(i)
		return ""
	}, func(s *Sample) string { return selections[s.Selection] }},
	{"time_us", "time latencyus time(us)", func(r *row, v string) string {
		n, err := strconv.ParseFloat(v, 64)
		if err != nil && v != "N/A" && !errors.Is(err, strconv.ErrRange) {
			return wording.Quote(v) + " is not a number of microseconds (allowed: as 41.5)"
		}
		if r.failed = false; err == nil {
			r.Micros = n
		}
		return ""
	}, func(s *Sample) string { return written(s.Micros) }},
	{"algbw_gbps", "algbw algbwgbs algbw(gb/s)", func(r *row, v string) string { r.AlgBW = bandwidth(v); return "" },
		func(s *Sample) string { return written(s.AlgBW) }},
	{"busbw_gbps", "busbw busbwgbs busbw(gb/s)", func(r *row, v string) string { r.BusBW = bandwidth(v); return "" },
		func(s *Sample) string { return written(s.BusBW) }},
	{"source", "", func(r *row, v string) string { r.Source = v; return "" }, func(s *Sample) string {
		if s.Simulated && !strings.HasPrefix(s.Source, simulatedPrefix) {
			return simulatedPrefix + s.Source
		}
		return s.Source
	}},
	number("start", "", func(s *Sample) *int { return &s.Start }),
	number("pass", "", func(s *Sample) *int { return &s.Pass }),
	// Of Setup, left out of files that know nothing of it.
	{name: "gpu_model", aliases: "gputype"}, {name: "hosts"}, {name: "nccl_version"}, {name: "driver_version"},
	{name: "measured_at"}, {name: "tuner"}, {name: "options"},
	// The same, left out of files without any.
	{name: "min_nchannels", read: positive}, {name: "min_ctas", read: positive}, {name: "variables"},

	{"wrong", "#wrong nwrong", func(r *row, v string) string { return r.check(v, 0) }, nil},
	{"count", "", func(r *row, v string) string { r.count, _ = strconv.ParseUint(v, 10, 64); return "" }, nil},
	{"root", "", func(r *row, v string) string {
		if n, err := strconv.Atoi(v); err == nil {
			r.root = n
		}
		return ""
	}, nil},
	{"cpu_time", "", func(r *row, _ string) string { r.reason = rejectCPUTime; return "" }, nil}, // of -C 1
	{"numCycle", "", func(r *row, v string) string { // of rccl-tests, from 0
		if n, err := strconv.Atoi(v); err == nil && n >= 0 {
			r.Pass, r.Start = cmp.Or(r.Pass, n+1), max(r.Start, 1)
		}
		return ""
	}, nil},
	// optimize_config.py's own: several operations in one launch and registered buffers, which a sample cannot say
	{"pipeOps", "numpipeops", func(r *row, v string) string { return r.grouped(v, "-1", "0", "1") }, nil},
	{"regBuff", "", func(r *row, v string) string { return r.grouped(v, "-1", "0") }, nil},
	{"ranks_per_node", "devicespernode", func(r *row, v string) string {
		if n := atoi(v); r.Nodes == 0 && n > 0 && r.Ranks%n == 0 {
			r.Nodes = r.Ranks / n
		}
		return ""
	}, nil},
	{"gpus_per_rank", "", func(_ *row, v string) string {
		if v != "1" {
			return fmt.Sprintf("%q (allowed: 1; elsewhere ranks are not GPUs)", v)
		}
		return ""
	}, nil},
	{name: "cost_metric"}, {name: "bandwidth_gbps"}, // the script does not use the first, nor say of what the second is
	// Of nccl-tests' tables only: deviations that rounding allows below 1. rccl-tests marks those beyond its threshold
	// with *. The last is that or a count, without a header that names it.
	{".error", "", func(r *row, v string) string { return r.check(v, math.MaxFloat64) }, nil},
	{".res", "", func(r *row, v string) string {
		r.Micros *= 1000 // nccl-tests of 2017: times are milliseconds
		return r.check(v, math.MaxFloat64)
	}, nil},
	{".either", "", func(r *row, v string) string { return r.check(v, 1-1e-9) }, nil},
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
	for i, c := range columns {
		names = append(names, c.name)
		for _, name := range append(strings.Fields(c.aliases), fold(c.name)) {
			at[name] = i
		}
	}
	return at, names
}()

// columnOf finds the column of a name. Some programs write both placements in one row; the first is read.
func columnOf(name string) (int, bool) {
	c, ok := columnByName[strings.TrimSuffix(fold(strings.TrimSpace(name)), "outofplace")]
	return c, ok
}

func nameIn[T nccl.Algo | nccl.Proto](v string, into *T, read T, names nccl.Names[T]) string {
	*into = read
	if read == Unknown && !strings.EqualFold(v, "default") && v != "-1" {
		return names.Unknown(v, "").Error()
	}
	return ""
}

func nameOf[T nccl.Algo | nccl.Proto](v T) string {
	if v == Unknown {
		return ""
	}
	return fmt.Sprint(v)
}

// number is the column of a number that a sample may not know.
func number(name, aliases string, of func(s *Sample) *int) column {
	return column{name, aliases, func(r *row, v string) string {
		const most = 1 << 30
		n, err := strconv.Atoi(v)
		if v != "-1" && (err != nil || n < 0 || n > most) {
			return wording.Quote(v) + " (allowed: 1 to 2^30; 0, -1 or empty where not known)"
		}
		*of(&r.Sample) = max(n, 0)
		return ""
	}, func(s *Sample) string { return written(*of(s)) }}
}

func positive(_ *row, v string) string {
	if n, err := strconv.Atoi(v); err != nil || n < 1 {
		return wording.Quote(v) + " (allowed: 1 or more, or empty)"
	}
	return ""
}

// check takes how far results were wrong, unless they were not compared.
func (r *row) check(v string, most float64) string {
	n, err := strconv.ParseFloat(v, 64)
	if r.checked = v != "N/A"; r.checked && !(err == nil && math.Abs(n) <= most) {
		r.reason = cmp.Or(r.reason, rejectFailed)
	}
	return ""
}

// grouped refuses what is not as usual.
func (r *row) grouped(v string, usual ...string) string {
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
