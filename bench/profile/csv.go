package profile

import (
	"encoding/csv"
	"errors"
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
	t, err := csvtable.Read(name, rest, 1, columnNames, 3)
	if err != nil {
		return nil, err
	}
	p := &Profile{}
	lines := map[CallKind]int{}
	for t.Next() {
		before := t.Failures()
		e := Entry{CallKind: CallKind{Cell: nccl.NoCell}}
		for _, c := range columns {
			if text := t.Field(c.name); text != "" || c.name == "collective" {
				if err := c.read(&e, text); err != nil {
					t.Fail(c.name, "%v", err)
				}
			}
		}
		if least := max(2, e.Nodes); e.Nodes+e.Ranks > 0 && e.Ranks < least {
			t.Fail("ranks", "%s (allowed: %d to %d)", wording.Quote(t.Field("ranks")), least, mostRanks)
		}
		if t.Failures() > before {
			continue
		}
		if other, twice := lines[e.CallKind]; twice {
			t.Fail("collective",
				"the same collective, communicator, size, algorithm and protocol as in line %d (allowed: once)", other)
		}
		lines[e.CallKind] = t.Line()
		p.Entries = append(p.Entries, e)
	}
	if err := t.Err(); err != nil {
		return nil, err
	}
	p.sort()
	return p, nil
}
