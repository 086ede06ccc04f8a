package record

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// Prefix begins each line that the library logs.
const Prefix = "TUNER/Go: "

// ByNCCL is who decided where the library left a call to NCCL.
const ByNCCL = "NCCL"

// An Event is a line of the library's log that programs read, as people do. Other lines are prose, for people only.
//
//	TUNER/Go: decision comm=0x6f3a coll=allreduce size=1KiB choice=ring/ll channels=2 by=tuner.csv:3 pipe_ops=1
//
// The name of the event comes first, then KEY=VALUE with one blank between. A value with blanks, quotes or what is
// not printable is quoted as in Go; so is each list, whose values have a blank between. Keys without a value are left
// out. A reader ignores keys that it does not know, and a line without a key that its event needs: it was cut off.
type Event interface {
	// grammar is the event's name and its keys, by which lines are written and read.
	grammar() (name string, keys []key)
}

// A key of an event stands for a field.
type key struct {
	name  string
	field any  // a pointer to string, bool, int, uint64 (bytes), nccl.Coll, Cell, []Cell or Config
	must  bool // it is written even if it is zero
}

// Start is how a communicator begins.
type Start struct {
	Library string // the library's release
	ID      string // the communicator's identity, as 0x6f3a; "": NCCL tells none
	Name    string // what the program calls the communicator; "": nothing
	nccl.Comm
	NCCL    string // the release of NCCL; "": not known
	ABI     int
	Policy  string // the file, or that of passes; "": none
	Passes  int    // 0: not under NCCL_TUNER_PASSES
	Rows    int
	Model   string
	Version string
	Because string // why NCCL decides all calls; "": it does not
}

func (s *Start) grammar() (string, []key) {
	return "start", []key{
		{"library", &s.Library, true}, {"comm", &s.ID, false}, {"name", &s.Name, false}, {"ranks", &s.Ranks, true},
		{"nodes", &s.Nodes, true}, {"nccl", &s.NCCL, false}, {"abi", &s.ABI, false}, {"policy", &s.Policy, false},
		{"passes", &s.Passes, false}, {"rows", &s.Rows, false}, {"model", &s.Model, false},
		{"version", &s.Version, false},
		{"nccl_decides", &s.Because, false},
	}
}

// Pass is a pass that begins under NCCL_TUNER_PASSES.
type Pass struct {
	ID      string
	N, Of   int // from 1
	Policy  string
	Version string
}

func (p *Pass) grammar() (string, []key) {
	return "pass", []key{
		{"comm", &p.ID, false}, {"n", &p.N, true}, {"of", &p.Of, true}, {"policy", &p.Policy, true},
		{"version", &p.Version, true},
	}
}

// Decision is a new decision, logged with NCCL_TUNER_LOG=decisions. Under NCCL_TUNER_PASSES each change of the call is
// logged.
type Decision struct {
	ID   string
	Pass int // 0: none, or the warm-up before the first pass
	nccl.Call
	// Asks is what the row asks for, of a single cell; NoCell: else. Available says whether NCCL has that. Both are
	// logged under NCCL_TUNER_PASSES only.
	Asks        nccl.Config
	Available   bool
	PipeOps     int
	nccl.Config        // NoCell: what NCCL chooses, which the library does not know
	ChunkBytes  uint64 // 0: NCCL's own
	Default     nccl.Cell
	By          string // a row (tuner.csv:3), a model or ByNCCL
	Because     string // what the model expects, or why neither row nor model decided
}

func (d *Decision) grammar() (string, []key) {
	return "decision", []key{
		{"comm", &d.ID, false}, {"pass", &d.Pass, false}, {"coll", &d.Coll, true}, {"size", &d.Bytes, true},
		{"asks", &d.Asks, false}, {"available", &d.Available, d.Asks.Known()}, {"choice", &d.Cell, false},
		{"channels", &d.Channels, false}, {"chunk", &d.ChunkBytes, false}, {"default", &d.Default, false},
		{"by", &d.By, true}, {"pipe_ops", &d.PipeOps, true}, {"because", &d.Because, false},
	}
}

// Available is what NCCL has for a collective, logged with NCCL_TUNER_LOG=decisions. It may differ from call to call.
type Available struct {
	ID    string
	Coll  nccl.Coll
	Cells []nccl.Cell
}

func (a *Available) grammar() (string, []key) {
	return "available", []key{{"comm", &a.ID, false}, {"coll", &a.Coll, true}, {"cells", &a.Cells, true}}
}

// Sum is how many decisions a row, the model or NCCL has made for a communicator, logged at its end with
// NCCL_TUNER_LOG=decisions. It counts those that were logged, not calls: a known call costs nothing.
type Sum struct {
	ID        string
	By        string // as Decision.By
	Decisions int
}

func (s *Sum) grammar() (string, []key) {
	return "sum", []key{{"comm", &s.ID, false}, {"by", &s.By, true}, {"decisions", &s.Decisions, true}}
}

// NoEffect says that rows would be for a communicator, and never match it.
type NoEffect struct {
	ID  string
	Why string
	Is  string // the same in words
}

// Why rows have no effect: they ask for what is not so here, or not known.
const (
	NoEffectTopology = "topology"
	NoEffectRelease  = "release"
	NoEffectName     = "name"
)

func (n *NoEffect) grammar() (string, []key) {
	return "no_effect", []key{{"comm", &n.ID, false}, {"why", &n.Why, true}, {"is", &n.Is, true}}
}

// Line is an event as it is logged.
func Line(e Event) string {
	name, keys := e.grammar()
	b := strings.Builder{}
	b.WriteString(Prefix + name)
	for _, k := range keys {
		if value, is := k.text(); is || k.must {
			b.WriteString(" " + k.name + "=" + value)
		}
	}
	return b.String()
}

// text is a key's value as a line has it. is is false for the zero value.
func (k key) text() (value string, is bool) {
	switch f := k.field.(type) {
	case *string:
		return quoted(*f), *f != ""
	case *int:
		return strconv.Itoa(*f), *f != 0
	case *bool:
		return map[bool]string{false: "no", true: "yes"}[*f], *f
	case *uint64:
		return nccl.FormatBytes(*f), *f != 0
	case *nccl.Config:
		return f.Label(), f.Known()
	case *nccl.Coll:
		return f.String(), true
	case *nccl.Cell:
		return f.String(), f.Known()
	case *[]nccl.Cell:
		names := make([]string, len(*f))
		for i, c := range *f {
			names[i] = c.String()
		}
		return strconv.Quote(strings.Join(names, " ")), len(*f) > 0
	}
	panic("a field of a type that events do not have")
}

func quoted(value string) string {
	special := func(r rune) bool { return r == '"' || r == ' ' || r == unicode.ReplacementChar || !unicode.IsPrint(r) }
	if value == "" || strings.ContainsFunc(value, special) {
		return strconv.Quote(value)
	}
	return value
}

// set reads a value.
func (k key) set(value string) (err error) {
	switch f := k.field.(type) {
	case *string:
		*f = value
	case *int:
		if *f, err = strconv.Atoi(value); err == nil && *f < 0 {
			err = fmt.Errorf("%d is below 0", *f)
		}
	case *bool:
		if *f = value == "yes"; value != "yes" && value != "no" {
			err = fmt.Errorf("%s (allowed: yes, no)", wording.Quote(value))
		}
	case *uint64:
		*f, err = nccl.ParseBytes(value)
	case *nccl.Config:
		*f, err = nccl.ParseConfig(value)
	case *nccl.Coll:
		*f, err = nccl.Colls.Parse(value)
	case *nccl.Cell:
		*f, err = parseCell(value)
	case *[]nccl.Cell:
		for name := range strings.FieldsSeq(value) {
			if c, err := parseCell(name); err == nil { // a later library may know more algorithms
				*f = append(*f, c)
			}
		}
	}
	return err
}

func parseCell(name string) (nccl.Cell, error) {
	algo, proto, _ := strings.Cut(name, "/")
	return nccl.ParseCell(algo, proto)
}

// ReadEvent reads a line of a log, whatever NCCL and a launcher put before the library's. It returns nil where the
// line is no event or was cut off, and an error where a value cannot be read. It reads the lines of release 0.2.0, too.
func ReadEvent(line []byte) (Event, error) {
	_, text, ok := bytes.Cut(line, []byte(Prefix))
	if !ok {
		return nil, nil
	}
	name, rest, _ := strings.Cut(string(bytes.TrimRight(text, " \r\n")), " ")
	begin, values := newEvents[name], split(rest)
	if begin == nil || len(values) == 0 {
		return readOld(string(text))
	}
	e := begin()
	_, keys := e.grammar()
	for _, k := range keys {
		if _, is := values[k.name]; !is && k.must {
			return nil, nil
		}
	}
	for _, k := range keys {
		if value, is := values[k.name]; is {
			if err := k.set(value); err != nil {
				return nil, fmt.Errorf("%s of %s: %w", k.name, name, err)
			}
		}
	}
	return e, nil
}

// newEvents make the events of each name, without values.
var newEvents = map[string]func() Event{
	"start": func() Event { return &Start{} }, "no_effect": func() Event { return &NoEffect{} },
	"pass": func() Event { return &Pass{} }, "decision": func() Event { return newDecision() },
	"available": func() Event { return &Available{} }, "sum": func() Event { return &Sum{} },
}

func newDecision() *Decision {
	unknown := nccl.Config{Cell: nccl.NoCell}
	return &Decision{Asks: unknown, Config: unknown, Default: nccl.NoCell}
}

// split takes the keys and values of a line apart, up to where it was cut off.
func split(text string) map[string]string {
	values := map[string]string{}
	for text != "" {
		name, rest, ok := strings.Cut(text, "=")
		if !ok || name == "" || strings.ContainsAny(name, " \"") {
			break
		}
		var value string
		if strings.HasPrefix(rest, `"`) {
			prefix, err := strconv.QuotedPrefix(rest)
			if err != nil {
				break
			}
			rest = rest[len(prefix):]
			value, _ = strconv.Unquote(prefix)
		} else {
			end := strings.IndexByte(rest, ' ')
			if end < 0 {
				end = len(rest)
			}
			if value, rest = rest[:end], rest[end:]; value == "" {
				break
			}
		}
		values[name] = value
		text = strings.TrimPrefix(rest, " ")
	}
	return values
}
