package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// IsReport reports whether a text begins as a report of rccl-tests in JSON.
func IsReport(start []byte) bool {
	record := bytes.TrimLeft(bytes.TrimPrefix(start, []byte("[")), " \t\r\n")
	record, _, _ = bytes.Cut(record, []byte("}"))
	return bytes.HasPrefix(record, []byte("{")) && bytes.Contains(record, []byte(`"busBw"`)) &&
		bytes.Contains(record, []byte(`"name"`))
}

// Read reads measurements in whatever format they are in. The name is for messages and Sample.Source; a word in it may
// be a hint that keeps rows out. Rows that cannot be used are counted in the result. An error means that the input
// holds no measurements or could not be read.
func Read(in io.Reader, name string, opts Options) (*Result, error) {
	const enough = 64 << 10
	buffered := bufio.NewReaderSize(in, 256<<10)
	start, err := buffered.Peek(enough)
	if err != nil && err != io.EOF {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if bytes.HasPrefix(start, []byte("\xff\xfe")) || bytes.HasPrefix(start, []byte("\xfe\xff")) {
		return nil, fmt.Errorf("%s:1: the file is UTF-16 (allowed: UTF-8)", name)
	}
	if bytes.HasPrefix(start, []byte("\ufeff")) {
		_, _ = buffered.Discard(len("\ufeff"))
		start = start[len("\ufeff"):]
	}
	r := &Result{File: name, notOffered: map[Sample]bool{}}
	closed := func(u *testRun) {
		u.close(opts)
		u.resolve(r)
	}
	switch trimmed := bytes.TrimLeft(start, " \t\r\n"); {
	case IsReport(trimmed):
		r.Format = formatReport
		err = readReport(buffered, r, closed)
	case bytes.HasPrefix(trimmed, []byte("{")) && !IsWrapped(trimmed):
		r.Format = formatJSON
		err = readJSON(buffered, r, closed)
	case looksLikeCSV(start):
		r.Format = formatSweep
		err = readCSV(buffered, r, closed)
	default:
		r.Format = formatText
		err = readText(buffered, r, opts.LogOf, closed)
	}
	if err != nil {
		return nil, err
	}
	r.ask()
	r.tellOwnChannels()
	// What is found at the end of a run may be about its start.
	slices.SortStableFunc(r.Rejected, func(a, b Rejection) int { return a.Line - b.Line })
	slices.SortStableFunc(r.Notes, func(a, b Note) int { return a.Line - b.Line })
	return r, nil
}

// ask asks once for the settings of a file that nobody tells.
func (r *Result) ask() {
	unknown := map[string]mention{}
	for _, m := range r.unknown {
		unknown[m.String()] = m
	}
	var names []string
	var how [3]string
	first := 0
	for _, text := range sortedKeys(unknown) {
		m := unknown[text]
		if m.name == directAccess && m.value == "" {
			r.note(m.line, askDirect)
			continue
		}
		if m.name == "NCCL_DEBUG_FILE" {
			how[0] = fmt.Sprintf(askLog, wording.Quote(m.value))
		}
		if m.chose() {
			how[1] = askChoice
		} else {
			how[2] = fmt.Sprintf(askSetting, m.name, m.name)
		}
		if m.line > 0 && (first == 0 || m.line < first) {
			first = m.line
		}
		if len(names) < mostNames {
			names = append(names, wording.Quote(strings.TrimSuffix(text, unsure)))
		}
	}
	if names != nil {
		isNone := func(s string) bool { return s == "" }
		r.note(first, askSettings, strings.Join(names, ", "), strings.Join(slices.DeleteFunc(how[:], isNone), "; "))
	}
}
