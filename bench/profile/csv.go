package profile

import (
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/csvtable"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// Head is how a profile begins. The number is the version of the format.
const Head = "# tunefit job profile "

const version = "1"

const explained = `# calls: of one rank, on average; time_us: of one call, the median of the least that a rank took.
# An empty field is not known. bytes count as for tuners: over all ranks of an allgather or reducescatter.
`

var columnNames = []string{"collective", "nodes", "ranks", "bytes", "calls", "calls_per_step", "time_us", "algorithm",
	"protocol", "channels", "decided_by"}

// Write writes a profile as Read reads it. Its notes are comments.
func (p *Profile) Write(w io.Writer) error {
	var out strings.Builder
	out.WriteString(Head + version + "\n" + explained)
	for _, note := range p.Notes {
		fmt.Fprintf(&out, "# %s\n", note)
	}
	table := csv.NewWriter(&out)
	rows := [][]string{columnNames}
	for _, e := range p.Entries {
		row := []string{e.Coll.String(), number(float64(e.Nodes)), number(float64(e.Ranks)), "", number(e.Calls),
			number(e.StepCalls), number(e.Micros), "", "", "", e.DecidedBy}
		if e.Bytes > 0 {
			row[3] = strconv.FormatUint(e.Bytes, 10)
		}
		if e.Algo >= 0 {
			row[7] = e.Algo.String()
		}
		if e.Proto >= 0 {
			row[8] = e.Proto.String()
		}
		if e.Channels > 0 {
			row[9] = strconv.Itoa(e.Channels)
		}
		rows = append(rows, row)
	}
	if err := table.WriteAll(rows); err != nil {
		return err
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// number writes no more digits than a count or a time has; 0 is not known.
func number(v float64) string {
	if v == 0 {
		return ""
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

const (
	mostRanks  = 1 << 24
	mostBytes  = 1 << 50
	mostNumber = 1e15 // of calls, and of microseconds
)

// Read reads a profile; name is the file's, for errors. All errors are told, up to 20.
func Read(name string, text []byte) (*Profile, error) {
	first, rest, _ := strings.Cut(strings.TrimPrefix(string(text), "\ufeff"), "\n")
	first = strings.TrimSpace(first)
	switch v, ok := strings.CutPrefix(first, Head); {
	case !ok:
		return nil, fmt.Errorf("%s:1:1: the first line is %s (needed: %q)", name, wording.Quote(first), Head+version)
	case v != version:
		return nil, fmt.Errorf("%s:1:%d: version %s of job profiles (known: %s)", name, len(Head)+1,
			wording.Quote(v), version)
	}
	t, err := csvtable.Read(name, rest, 1, columnNames, 3)
	if err != nil {
		return nil, err
	}
	r := reader{t}
	p := &Profile{}
	lines := map[CallKind]int{}
	for r.Next() {
		before := r.Failures()
		e := r.entry()
		if r.Failures() > before {
			continue
		}
		if other, twice := lines[e.CallKind]; twice {
			r.Fail("collective",
				"the same collective, communicator, size, algorithm and protocol as in line %d (allowed: once)", other)
		}
		lines[e.CallKind] = r.Line()
		p.Entries = append(p.Entries, e)
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	p.sort()
	return p, nil
}

// reader reads the rows of one profile.
type reader struct{ *csvtable.Table }

func (r *reader) entry() Entry {
	e := Entry{CallKind: CallKind{Cell: nccl.NoCell}}
	var err error
	if e.Coll, err = nccl.Colls.Parse(r.Field("collective")); err != nil {
		r.Fail("collective", "%v", err)
	}
	if r.Field("nodes") != "" {
		e.Nodes = r.count("nodes", 1, mostRanks)
	}
	if r.Field("ranks") != "" || e.Nodes > 0 {
		e.Ranks = r.count("ranks", max(2, e.Nodes), mostRanks)
	}
	if text := r.Field("bytes"); text != "" {
		if e.Bytes, err = nccl.ParseBytes(text); err != nil {
			r.Fail("bytes", "%v", err)
		} else if e.Bytes < 1 || e.Bytes > mostBytes {
			r.Fail("bytes", "%s (allowed: 1 to 1024T, or nothing: not known)", wording.Quote(text))
		}
	}
	e.Calls, e.StepCalls, e.Micros = r.positive("calls"), r.positive("calls_per_step"), r.positive("time_us")
	if text := r.Field("algorithm"); text != "" {
		if e.Algo, err = nccl.Algos.Parse(text); err != nil {
			r.Fail("algorithm", "%v", err)
		}
	}
	if text := r.Field("protocol"); text != "" {
		if e.Proto, err = nccl.Protos.Parse(text); err != nil {
			r.Fail("protocol", "%v", err)
		}
	}
	if r.Field("channels") != "" {
		e.Channels = r.count("channels", 1, nccl.MaxChannels)
	}
	e.DecidedBy = r.Field("decided_by")
	return e
}

// count reads a whole number. It returns 1 for one that is refused.
func (r *reader) count(column string, least, most int) int {
	n, err := strconv.Atoi(r.Field(column))
	if err != nil || n < least || n > most {
		r.Fail(column, "%s (allowed: %d to %d)", wording.Quote(r.Field(column)), least, most)
		return 1
	}
	return n
}

func (r *reader) positive(column string) float64 {
	text := r.Field(column)
	if text == "" {
		return 0
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0 && v <= mostNumber) {
		r.Fail(column, "%s (allowed: a number above 0 and up to %.0e, or nothing: not known)",
			wording.Quote(text), mostNumber)
		return 0
	}
	return v
}
