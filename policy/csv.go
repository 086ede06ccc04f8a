package policy

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gocarina/gocsv"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/suggest"
)

// row is one line of a policy file before its cells are read. Without a header
// the columns are the first ten, in this order: the format of NCCL's example
// tuner and of RCCL.
type row struct {
	Collective      string `csv:"collective"`
	MinBytes        string `csv:"min_bytes"`
	MaxBytes        string `csv:"max_bytes"`
	Algorithm       string `csv:"algorithm"`
	Protocol        string `csv:"protocol"`
	Channels        string `csv:"channels"`
	Nodes           string `csv:"nodes"`
	Ranks           string `csv:"ranks"`
	PipeOps         string `csv:"pipe_ops"`
	RegBuff         string `csv:"reg_buff"`
	RanksPerNode    string `csv:"ranks_per_node"`
	MinBytesPerRank string `csv:"min_bytes_per_rank"`
	MaxBytesPerRank string `csv:"max_bytes_per_rank"`
	ChunkBytes      string `csv:"chunk_bytes"`
	When            string `csv:"when"`
	Comment         string `csv:"comment"`
	Beyond          string `csv:"(beyond the last column)"`
}

const (
	// In a headerless file these columns must be there in every row.
	mandatoryColumns  = 8
	headerlessColumns = 10
	beyondColumn      = "(beyond the last column)"
)

var columnNames = []string{
	"collective", "min_bytes", "max_bytes", "algorithm", "protocol", "channels", "nodes", "ranks", "pipe_ops", "reg_buff",
	"ranks_per_node", "min_bytes_per_rank", "max_bytes_per_rank", "chunk_bytes", "when", "comment",
}

// columnBySpelling maps every accepted spelling of a column's name, in lower
// case, to the one in columnNames.
var columnBySpelling = func() map[string]string {
	m := map[string]string{}
	for _, name := range columnNames {
		for _, s := range nccl.Spellings(name) {
			m[s] = name
		}
	}
	for alias, name := range map[string]string{
		"collective_type": "collective", "coll_type": "collective", "coll": "collective", "algo": "algorithm", "proto": "protocol",
		"n_channels": "channels", "n_nodes": "nodes", "n_ranks": "ranks", "num_pipe_ops": "pipe_ops",
	} {
		for _, s := range nccl.Spellings(alias) {
			m[s] = name
		}
	}
	return m
}()

// column returns the canonical name of a header's cell, or "".
func column(cell string) string { return columnBySpelling[strings.ToLower(strings.TrimSpace(cell))] }

// maxProblems ends the reading of a file that is no policy at all: the log of a
// job, say, named by mistake.
const maxProblems = 1000

// readRules reads a whole file. Rules are returned in the file's order; any
// problem makes them worthless.
func readRules(file string, data []byte) ([]Rule, Problems) {
	r := &reader{file: file}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		r.fail(1, 0, errors.New("the file is UTF-16 (allowed: UTF-8)"))
		return nil, r.problems
	}
	if bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		r.fail(1, 0, errors.New("the file is JSON (allowed: a policy in CSV; a cost model is named by NCCL_TUNER_MODEL_FILE, or --model)"))
		return nil, r.problems
	}
	data = unindentComments(data)
	r.readHeader(data)
	r.readRows(data)
	if r.full() {
		r.fail(r.problems[len(r.problems)-1].Line, 0, fmt.Errorf("%d problems up to here; the rest of the file is not read", maxProblems))
	}
	r.problems.sort()
	return r.rules, r.problems
}

type reader struct {
	file       string
	columns    []string // canonical name of each column, "" where unknown
	headerLine int      // 0 without a header
	// linesBefore are those of the file that come before what this reader reads.
	linesBefore int

	rules    []Rule
	when     whenReader
	problems Problems
}

// full reports that it is no use to go on.
func (r *reader) full() bool { return len(r.problems) >= maxProblems }

func (r *reader) fail(line, column int, err error) {
	r.problems = append(r.problems, Problem{r.file, line, column, err.Error()})
}

// readHeader finds the columns. A first row that names any column is a header:
// no column's name is a legal cell of the first row of data.
func (r *reader) readHeader(data []byte) {
	r.columns = columnNames[:headerlessColumns]
	in := newCSVReader(bytes.NewReader(data))
	first, err := in.Read()
	for err == nil && blank(first) {
		first, err = in.Read()
	}
	if err != nil || !slices.ContainsFunc(first, func(s string) bool { return column(s) != "" }) {
		return
	}
	r.headerLine, _ = in.FieldPos(0)
	r.columns = nil
	for len(first) > 0 && strings.TrimSpace(first[len(first)-1]) == "" { // as spreadsheets leave them
		first = first[:len(first)-1]
	}
	for i, s := range first {
		s = strings.TrimSpace(s)
		name := column(s)
		switch {
		case name == "":
			r.fail(r.headerLine, i+1, fmt.Errorf("unknown column %s (%sallowed: %s)", suggest.Quote(s),
				suggest.DidYouMean(s, columnNames), strings.Join(columnNames, ", ")))
		case slices.Contains(r.columns, name):
			r.fail(r.headerLine, i+1, fmt.Errorf("column %s is named twice", name))
			name = ""
		}
		r.columns = append(r.columns, name)
	}
	for _, name := range []string{"collective", "algorithm"} {
		if !slices.Contains(r.columns, name) {
			r.fail(r.headerLine, 0, fmt.Errorf("the header has no column %q", name))
		}
	}
}

// readRows reads a large file in two halves side by side: it is most of what the
// plugin costs a job at its start.
func (r *reader) readRows(data []byte) {
	at := r.middle(data)
	if at == len(data) {
		r.readPart(data)
		return
	}
	second := &reader{file: r.file, columns: r.columns, headerLine: r.headerLine, linesBefore: bytes.Count(data[:at], []byte("\n"))}
	done := make(chan any, 1)
	go func() {
		defer func() { done <- recover() }()
		second.readPart(data[at:])
	}()
	r.readPart(data[:at])
	if defect := <-done; defect != nil {
		panic(defect) // on the caller's goroutine, where it is contained
	}
	r.rules = append(r.rules, second.rules...)
	if !r.full() {
		r.problems = append(r.problems, second.problems...)
		r.problems.sort()
		r.problems = r.problems[:min(len(r.problems), maxProblems)]
	}
}

// middle returns where a line near the middle begins, or the end for data that is
// read in one go: little of it, with cells that may go over several lines, or with
// conditions, which rows share.
func (r *reader) middle(data []byte) int {
	if len(data) < 64<<10 || bytes.IndexByte(data, '"') >= 0 || slices.Contains(r.columns, "when") {
		return len(data)
	}
	half := len(data) / 2
	line := bytes.IndexByte(data[half:], '\n')
	if line < 0 {
		return len(data)
	}
	return half + line + 1
}

// readPart lets gocsv fill one row struct per line. The columns found by readHeader
// go in front as gocsv's header, which shifts lines by one.
func (r *reader) readPart(data []byte) {
	header := make([]string, len(r.columns)+1)
	for i, name := range r.columns {
		header[i] = name
		if name == "" {
			header[i] = fmt.Sprintf("(unknown %d)", i)
		}
	}
	header[len(r.columns)] = beyondColumn
	in := newCSVReader(io.MultiReader(strings.NewReader(strings.Join(header, ",")+"\n"), bytes.NewReader(data)))
	in.ReuseRecord = true
	rows, err := gocsv.NewUnmarshaller(in, &row{})
	if err != nil {
		r.fail(1, 0, err)
		return
	}
	r.rules = make([]Rule, 0, 1+bytes.Count(data, []byte("\n")))
	cells := cellReader{r: r, in: in}
	for !r.full() {
		v, err := rows.Read()
		var syntax *csv.ParseError
		switch {
		case err == io.EOF:
			return
		case errors.As(err, &syntax):
			r.fail(r.linesBefore+syntax.StartLine-1, 0, syntaxText(syntax))
			continue
		case err != nil:
			r.fail(1, 0, err)
			return
		}
		line, _ := in.FieldPos(0)
		rw := v.(*row)
		rw.trim()
		cells.line, cells.row = r.linesBefore+line-1, rw
		switch {
		case cells.line == r.headerLine || cells.blank():
		case column(rw.Collective) != "":
			r.fail(cells.line, 0, errors.New("another header (allowed: one, as the first row)"))
		default:
			r.rules = append(r.rules, cells.rule())
		}
	}
}

func newCSVReader(in io.Reader) *csv.Reader {
	r := csv.NewReader(in)
	r.Comment = '#'
	r.FieldsPerRecord = -1
	return r
}

func syntaxText(e *csv.ParseError) error {
	switch e.Err {
	case csv.ErrQuote:
		return errors.New(`a quoted cell is not closed, or text follows its closing quote (write a quote inside it as "")`)
	case csv.ErrBareQuote:
		return errors.New(`a quote stands inside an unquoted cell (quote the whole cell and write the quote as "")`)
	}
	return e.Err
}

func blank(record []string) bool {
	return !slices.ContainsFunc(record, func(s string) bool { return strings.TrimSpace(s) != "" })
}

// unindentComments moves a # that only white space precedes to the start of its
// line, where encoding/csv knows it as a comment.
func unindentComments(data []byte) []byte {
	if !bytes.Contains(data, []byte(" #")) && !bytes.Contains(data, []byte("\t#")) {
		return data
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	for i, line := range lines {
		if t := bytes.TrimLeft(line, " \t"); bytes.HasPrefix(t, []byte("#")) {
			lines[i] = t
		}
	}
	return bytes.Join(lines, nil)
}
