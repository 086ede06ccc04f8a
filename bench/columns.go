package bench

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// csvColumn is a column of a CSV file, or a member of a result in JSON.
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

	{"wrong", "#wrong nwrong", func(r *csvRow, v string) string {
		n, err := strconv.ParseFloat(v, 64)
		if r.checked = v != "N/A"; r.checked && (err != nil || n != 0) {
			r.reason = cmp.Or(r.reason, rejectFailed)
		}
		return ""
	}, nil},
	{"count", "", func(r *csvRow, v string) string { r.count, _ = strconv.ParseUint(v, 10, 64); return "" }, nil},
	{"root", "", func(r *csvRow, v string) string {
		if n, err := strconv.Atoi(v); err == nil {
			r.root = n
		}
		return ""
	}, nil},
	{"cpu_time", "", func(r *csvRow, _ string) string { r.reason = rejectCPUTime; return "" }, nil}, // of -C 1
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
