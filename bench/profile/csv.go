package profile

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/suggest"
)

// Head is how a profile begins. The number is the version of the format.
const Head = "# tunefit job profile "

const version = "1"

const explained = `# calls: of one rank, on average; time_us: of one call, the median of the least that a rank took.
# An empty field is not known. bytes count as for tuners: over all ranks of an allgather or reducescatter.
`

var columns = []string{"collective", "nodes", "ranks", "bytes", "calls", "calls_per_step", "time_us", "algorithm", "protocol", "channels", "decided_by"}

// Write writes a profile as Read reads it. Its notes are comments.
func (p *Profile) Write(w io.Writer) error {
	var out strings.Builder
	out.WriteString(Head + version + "\n" + explained)
	for _, note := range p.Notes {
		fmt.Fprintf(&out, "# %s\n", note)
	}
	table := csv.NewWriter(&out)
	rows := [][]string{columns}
	for _, e := range p.Entries {
		row := []string{e.Coll.String(), strconv.Itoa(e.Nodes), strconv.Itoa(e.Ranks), "", number(e.Calls), number(e.StepCalls), number(e.Micros), "", "", "", e.DecidedBy}
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
	mostErrors = 20
	mostRanks  = 1 << 24
	mostBytes  = 1 << 50
)

// reader reads the rows of one profile.
type reader struct {
	name   string
	table  *csv.Reader
	skip   int // lines before what table reads
	places map[string]int
	row    []string
	errs   []error
}

// Read reads a profile; name is the file's, for errors. All errors are told, up to 20.
func Read(name string, text []byte) (*Profile, error) {
	first, rest, _ := strings.Cut(strings.TrimPrefix(string(text), "\ufeff"), "\n")
	first = strings.TrimSpace(first)
	switch v, ok := strings.CutPrefix(first, Head); {
	case !ok:
		return nil, fmt.Errorf("%s:1:1: the first line is %s (needed: %q)", name, suggest.Quote(first), Head+version)
	case v != version:
		return nil, fmt.Errorf("%s:1:%d: version %s of job profiles (known: %s)", name, len(Head)+1, suggest.Quote(v), version)
	}
	r := reader{name: name, table: csv.NewReader(strings.NewReader(rest)), skip: 1}
	r.table.Comment, r.table.FieldsPerRecord, r.table.TrimLeadingSpace = '#', -1, true
	if err := r.header(); err != nil {
		return nil, err
	}
	p := &Profile{}
	lines := map[Call]int{}
	for {
		row, err := r.table.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			r.errs = append(r.errs, r.malformed(err))
			break
		}
		if r.row = row; len(row) != len(r.places) {
			r.fail("", "%d fields (needed: %d, as in the header)", len(row), len(r.places))
			continue
		}
		before := len(r.errs)
		e := r.entry()
		if len(r.errs) > before {
			continue
		}
		line, _ := r.table.FieldPos(0)
		if other, twice := lines[e.Call]; twice {
			r.fail("collective", "the same collective, communicator, size, algorithm and protocol as in line %d (allowed: once)", other)
		}
		lines[e.Call] = line + r.skip
		p.Entries = append(p.Entries, e)
	}
	if len(r.errs) == 0 && len(p.Entries) == 0 {
		r.errs = append(r.errs, fmt.Errorf("%s: no rows (needed: one or more, as tunefit import writes them)", name))
	}
	if more := len(r.errs) - mostErrors; more > 0 {
		r.errs = append(r.errs[:mostErrors], fmt.Errorf("%s: and %d more", name, more))
	}
	if len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	p.sort()
	return p, nil
}

func (r *reader) header() error {
	row, err := r.table.Read()
	switch {
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s: no header (needed: %s)", r.name, strings.Join(columns, ","))
	case err != nil:
		return r.malformed(err)
	}
	r.places = map[string]int{}
	for i, name := range row {
		name = strings.ToLower(strings.TrimSpace(name))
		line, column := r.table.FieldPos(i)
		at := fmt.Sprintf("%s:%d:%d", r.name, line+r.skip, column)
		if !slices.Contains(columns, name) {
			return fmt.Errorf("%s: unknown column %s (%sallowed: %s)", at, suggest.Quote(name), suggest.DidYouMean(name, columns), strings.Join(columns, ", "))
		}
		if _, twice := r.places[name]; twice {
			return fmt.Errorf("%s: column %s stands twice", at, name)
		}
		r.places[name] = i
	}
	for _, name := range columns[:3] {
		if _, ok := r.places[name]; !ok {
			return fmt.Errorf("%s: no column %s (needed: %s)", r.name, name, strings.Join(columns[:3], ", "))
		}
	}
	return nil
}

func (r *reader) malformed(err error) error {
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		return fmt.Errorf("%s:%d:%d: %w", r.name, parse.Line+r.skip, parse.Column, parse.Err)
	}
	return fmt.Errorf("%s: %w", r.name, err)
}

func (r *reader) fail(column, format string, args ...any) {
	line, at := r.table.FieldPos(r.places[column])
	if column != "" {
		column += ": "
	}
	r.errs = append(r.errs, fmt.Errorf("%s:%d:%d: %s%s", r.name, line+r.skip, at, column, fmt.Sprintf(format, args...)))
}

// field is empty where the column is missing, too.
func (r *reader) field(column string) string {
	if i, ok := r.places[column]; ok {
		return strings.TrimSpace(r.row[i])
	}
	return ""
}

func (r *reader) entry() Entry {
	e := Entry{Call: Call{Algo: -1, Proto: -1}}
	var err error
	if e.Coll, err = nccl.Colls.Parse(r.field("collective")); err != nil {
		r.fail("collective", "%v", err)
	}
	e.Nodes = r.count("nodes", 1, mostRanks)
	e.Ranks = r.count("ranks", max(2, e.Nodes), mostRanks)
	if text := r.field("bytes"); text != "" {
		if e.Bytes, err = nccl.ParseBytes(text); err != nil {
			r.fail("bytes", "%v", err)
		} else if e.Bytes < 1 || e.Bytes > mostBytes {
			r.fail("bytes", "%s (allowed: 1 to 1024T, or nothing: not known)", suggest.Quote(text))
		}
	}
	e.Calls, e.StepCalls, e.Micros = r.positive("calls"), r.positive("calls_per_step"), r.positive("time_us")
	if text := r.field("algorithm"); text != "" {
		if e.Algo, err = nccl.Algos.Parse(text); err != nil {
			r.fail("algorithm", "%v", err)
		}
	}
	if text := r.field("protocol"); text != "" {
		if e.Proto, err = nccl.Protos.Parse(text); err != nil {
			r.fail("protocol", "%v", err)
		}
	}
	if r.field("channels") != "" {
		e.Channels = r.count("channels", 1, nccl.MaxChannels)
	}
	e.DecidedBy = r.field("decided_by")
	return e
}

// count is 1 at least, also of what is refused.
func (r *reader) count(column string, least, most int) int {
	n, err := strconv.Atoi(r.field(column))
	if err != nil || n < least || n > most {
		r.fail(column, "%s (allowed: %d to %d)", suggest.Quote(r.field(column)), least, most)
		return 1
	}
	return n
}

func (r *reader) positive(column string) float64 {
	text := r.field(column)
	if text == "" {
		return 0
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v > 0) || math.IsInf(v, 0) {
		r.fail(column, "%s (allowed: a number above 0, or nothing: not known)", suggest.Quote(text))
		return 0
	}
	return v
}
