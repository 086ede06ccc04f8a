package profile

import (
	"encoding/csv"
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

// Head is how a profile begins. The number is the version of the format.
const Head = "# tunefit job profile "

const version = "1"

const explained = `# calls: of one rank, on average; time_us: of one call, the median of the least that a rank took.
# An empty field is not known. bytes count as for tuners: over all ranks of an allgather or reducescatter.
`

// column is a field of an entry. Where it is empty, it is not known.
type column struct {
	name string
	text func(e *Entry) string
	read func(e *Entry, text string) error
}

var columns = []column{
	named("collective", nccl.Colls, func(e *Entry) *nccl.Coll { return &e.Coll }),
	number("nodes", "%d", mostRanks, strconv.Atoi, func(e *Entry) *int { return &e.Nodes }),
	number("ranks", "%d", mostRanks, strconv.Atoi, func(e *Entry) *int { return &e.Ranks }),
	number("bytes", "%d", mostBytes, nccl.ParseBytes, func(e *Entry) *uint64 { return &e.Bytes }),
	number("calls", "%.6g", mostNumber, parseFloat, func(e *Entry) *float64 { return &e.Calls }),
	number("calls_per_step", "%.6g", mostNumber, parseFloat, func(e *Entry) *float64 { return &e.StepCalls }),
	number("time_us", "%.6g", mostNumber, parseFloat, func(e *Entry) *float64 { return &e.Micros }),
	named("algorithm", nccl.Algos, func(e *Entry) *nccl.Algo { return &e.Algo }),
	named("protocol", nccl.Protos, func(e *Entry) *nccl.Proto { return &e.Proto }),
	number("channels", "%d", nccl.MaxChannels, strconv.Atoi, func(e *Entry) *int { return &e.Channels }),
	{"decided_by", func(e *Entry) string { return e.DecidedBy },
		func(e *Entry, text string) error { e.DecidedBy = text; return nil }},
}

var columnNames = func() (names []string) {
	for _, c := range columns {
		names = append(names, c.name)
	}
	return names
}()

const (
	mostRanks  = 1 << 24
	mostBytes  = 1 << 50
	mostNumber = 1e15 // of calls, and of microseconds
)

func named[T interface {
	~int8
	String() string
}](name string, known nccl.Names[T], of func(*Entry) *T) column {
	text := func(e *Entry) string {
		if *of(e) < 0 {
			return ""
		}
		return T.String(*of(e))
	}
	return column{name, text, func(e *Entry, text string) (err error) {
		*of(e), err = known.Parse(text)
		return err
	}}
}

// number is a column of numbers above 0.
func number[T int | uint64 | float64](
	name, format string, most T, parse func(string) (T, error), of func(*Entry) *T,
) column {
	text := func(e *Entry) string {
		if *of(e) == 0 {
			return ""
		}
		return fmt.Sprintf(format, *of(e))
	}
	return column{name, text, func(e *Entry, text string) error {
		n, err := parse(text)
		switch {
		case err != nil && !errors.As(err, new(*strconv.NumError)):
			return err
		case err != nil || !(n > 0 && n <= most):
			return fmt.Errorf("%s (allowed: above 0, up to %v, or nothing: not known)", wording.Quote(text), most)
		}
		*of(e) = n
		return nil
	}}
}

func parseFloat(text string) (float64, error) { return strconv.ParseFloat(text, 64) }

// Write writes a profile as Read reads it. Its notes are comments.
func (p *Profile) Write(w io.Writer) error {
	var out strings.Builder
	out.WriteString(Head + version + "\n" + explained)
	for _, note := range p.Notes {
		fmt.Fprintf(&out, "# %s\n", note)
	}
	rows := [][]string{columnNames}
	for i := range p.Entries {
		var row []string
		for _, c := range columns {
			row = append(row, c.text(&p.Entries[i]))
		}
		rows = append(rows, row)
	}
	if err := csv.NewWriter(&out).WriteAll(rows); err != nil {
		return err
	}
	_, err := io.WriteString(w, out.String())
	return err
}

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
	in := csvtable.NewReader(strings.NewReader(rest))
	in.TrimLeadingSpace = true
	p, lines := &Profile{}, map[CallKind]int{}
	var places map[string]int // of columns, from 0
	var errs []error
	fail := func(field int, format string, args ...any) {
		line, column := in.FieldPos(max(field, 0))
		errs = append(errs, fmt.Errorf("%s:%d:%d: %s", name, line+1, column, fmt.Sprintf(format, args...)))
	}
	const mostErrors = 20
	for len(errs) < mostErrors {
		row, err := in.Read()
		var malformed *csv.ParseError
		var refused *csvtable.RowError
		switch {
		case err == io.EOF && places == nil:
			return nil, fmt.Errorf("%s:2:1: no header (needed: %s)", name, strings.Join(columnNames, ","))
		case err == io.EOF && len(p.Entries)+len(errs) == 0:
			return nil, fmt.Errorf("%s: no rows below the header (needed: one or more)", name)
		case err == io.EOF && len(errs) == 0:
			p.sort()
			return p, nil
		case err == io.EOF:
			return nil, errors.Join(errs...)
		case errors.As(err, &malformed):
			return nil, errors.Join(append(errs,
				fmt.Errorf("%s:%d:%d: %w", name, malformed.Line+1, malformed.Column, malformed.Err))...)
		case errors.As(err, &refused):
			return nil, errors.Join(append(errs, fmt.Errorf("%s:%d:1: %s", name, refused.Line+1, refused.Text))...)
		case places == nil:
			var wrong []csvtable.Wrong
			if places, wrong = placesOf(row); len(wrong) == 0 {
				continue
			}
			for _, w := range wrong {
				fail(w.Column-1, "%s", w.Text)
			}
			return nil, errors.Join(errs...)
		case len(row) != len(places):
			fail(0, "%d fields (needed: %d, as in the header)", len(row), len(places))
			continue
		}
		for i, field := range row {
			row[i] = strings.TrimSpace(field)
		}
		before := len(errs)
		e := Entry{CallKind: CallKind{Cell: nccl.NoCell}}
		for _, c := range columns {
			at, there := places[c.name]
			if !there || row[at] == "" && c.name != "collective" {
				continue
			}
			if err := c.read(&e, row[at]); err != nil {
				fail(at, "%s: %v", c.name, err)
			}
		}
		if least := max(2, e.Nodes); e.Nodes+e.Ranks > 0 && e.Ranks < least {
			fail(places["ranks"], "ranks: %s (allowed: %d to %d)", wording.Quote(row[places["ranks"]]), least,
				mostRanks)
		}
		if len(errs) > before {
			continue
		}
		if other, twice := lines[e.CallKind]; twice {
			fail(places["collective"], "collective: the same collective, communicator, size, algorithm and protocol "+
				"as in line %d (allowed: once)", other)
		}
		line, _ := in.FieldPos(0)
		lines[e.CallKind] = line + 1
		p.Entries = append(p.Entries, e)
	}
	return nil, errors.Join(errs...)
}

// placesOf finds the columns of a header. The first three must be there.
func placesOf(header []string) (map[string]int, []csvtable.Wrong) {
	names, wrong := csvtable.Columns(header, columnNames, columnNames[:3], func(field string) string {
		if name := strings.ToLower(strings.TrimSpace(field)); slices.Contains(columnNames, name) {
			return name
		}
		return ""
	})
	places := map[string]int{}
	for i, name := range names {
		places[name] = i
	}
	return places, wrong
}
