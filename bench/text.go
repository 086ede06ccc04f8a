package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// textReader reads the printed output of nccl-tests: one or many runs, between lines
// of launchers, of NCCL's log and of anything else.
type textReader struct {
	r      *Result
	logOf  func(process string) []byte
	closed func(*testRun) // takes each run that has ended
	*stream

	line    int
	hosts   hosts
	prefix  linePrefix
	streams map[string]*stream // by what a launcher puts before their lines; one, unless several print headers
	same    []byte             // how all lines so far begin; nil: there was none
	sawRow  bool
	process string     // the first in NCCL's log, as host:pid
	tokens  [64][]byte // of the last line
	rows    [2]row     // of the last row
}

// stream is what one process prints.
type stream struct {
	run  *testRun
	said mentions // since the last table
	// pending is the start of a row that NCCL's log split.
	pending     []byte
	pendingLine int
	length      int // of the last whole row's line
}

func readText(in *bufio.Reader, r *Result, logOf func(process string) []byte, closed func(*testRun)) error {
	t := &textReader{r: r, logOf: logOf, closed: closed, hosts: hosts{}, stream: &stream{run: newRun(r.File, 1, nil)}}
	t.streams = map[string]*stream{"": t.stream}
	start, _ := in.Peek(64 << 10)
	t.streamsOf(start)
	for {
		line, err := readLine(in)
		if err != nil && err != io.EOF {
			return fmt.Errorf("%s:%d: %w", r.File, t.line, err)
		}
		if len(line) > 0 {
			t.line++
			t.whole(line)
			if err := r.tooMany(len(t.run.rows)); err != nil {
				return fmt.Errorf("%s:%d: %w", r.File, t.line, err)
			}
		}
		if err == io.EOF {
			break
		}
	}
	for _, label := range slices.Sorted(maps.Keys(t.streams)) {
		t.stream = t.streams[label]
		t.flush()
		t.closed(t.run)
	}
	switch same := bytes.TrimSpace(t.same); {
	case t.sawRow || len(r.Notes) > 0:
		return nil
	case t.process != "":
		return &LogApart{r.File, t.process}
	case len(same) > 1 && t.line > 2:
		return fmt.Errorf("%s: %w; every line begins with %q, and what follows is not understood", r.File, errNotSweep,
			same)
	}
	return fmt.Errorf("%s: %w", r.File, errNotSweep)
}

// streamsOf learns from the start of a text what stands before each line, also above the first header. Where several
// processes print headers, as one test a node does under srun -l, what stands there tells their lines apart.
func (t *textReader) streamsOf(start []byte) {
	for line := range bytes.Lines(start) {
		if begins.Match(line) {
			t.prefix.strip(line)
			break
		}
	}
	p, lines, heads := t.prefix, map[string]int{}, map[string]bool{}
	for line := range bytes.Lines(start) {
		rest := p.strip(line)
		lines[p.label]++
		heads[p.label] = heads[p.label] || bytes.HasPrefix(bytes.TrimLeft(rest, "# "), []byte("nThread "))
	}
	const few = 3 // a time, a number of a line and the like do not repeat
	maps.DeleteFunc(heads, func(label string, has bool) bool {
		return !has || lines[label] < few || clockTime.MatchString(label)
	})
	if len(heads) > 1 {
		for label := range heads {
			t.streams[label] = &stream{run: newRun(t.r.File, 1, nil)}
		}
	}
}

// whole takes a line as it stands in the file.
func (t *textReader) whole(line []byte) {
	switch {
	case t.sawRow || len(bytes.TrimSpace(line)) == 0:
	case t.same == nil:
		t.same = bytes.Clone(line[:min(len(line), longestQuote)])
	default:
		n := 0
		for n < min(len(t.same), len(line)) && t.same[n] == line[n] {
			n++
		}
		t.same = t.same[:n]
	}
	parts, cut := linesOf(line), !bytes.HasSuffix(line, []byte("\n"))
	for _, part := range parts {
		t.read(part, false)
	}
	line = t.prefix.strip(line)
	if s := t.streams[t.prefix.label]; s != nil {
		t.stream = s
	}
	switch {
	case parts != nil:
	case t.prefix.missing && holdsRow(line):
		t.r.reject(t.line, 1, rejectPrefix)
	default:
		t.read(bytes.TrimRight(line, "\r\n"), cut)
	}
}

// read takes a line without what is before it. cut: the file ends in it.
func (t *textReader) read(line []byte, cut bool) {
	if l, ok := t.hosts.split(line); ok {
		t.log(l)
		return
	}
	line = bytes.TrimLeft(line, " \t")
	if len(line) == 0 {
		return
	}
	isNumber := line[0] >= '0' && line[0] <= '9' && !bytes.Contains(line, []byte("CCL_")) &&
		!bytes.Contains(line, []byte("_perf"))
	if isNumber || len(t.pending) > 0 && (line[0] == '-' || line[0] == 'N') {
		t.number(line, cut)
		return
	}
	if line[0] == '#' {
		t.flush()
	}
	switch {
	case t.run.failure.scan(t.line, line, false), t.header(line), t.variable(line):
	case t.said.scan(t.line, line) && len(t.run.rows) > 0:
		if t.flush(); !t.run.footer { // rows under a heading of their own
			t.goOn()
			t.run.mentions.of = nil
		}
	}
	t.run.tell("", line) // NCCL's log may have lost its head
}

// log takes a line of NCCL's log, and the piece of a row before it.
func (t *textReader) log(l logLine) {
	if t.process == "" {
		t.process = l.hostPID()
	}
	if piece := bytes.TrimLeft(l.row, " \t"); len(piece) > 0 {
		var few [4][]byte
		if len(t.pending) > 0 || beginsRow(tokensOf(piece, few[:])) {
			t.hold(l.row)
		}
	}
	isEnv := bytes.Contains(l.said, setByEnvironment)
	if t.run.footer && (isEnv || bytes.Contains(l.said, []byte(" nRanks "))) {
		t.fresh(true) // of the next run, whose header is still to come
	}
	if isEnv {
		t.variable(l.said)
	}
	t.run.failure.scan(t.line, l.said, true)
	t.run.tell(l.process, l.said)
}

var setByEnvironment = []byte(" set by environment to ")

// variable takes what NCCL's log tells of one. Rows so far ran with the variables as they were. It reports whether the
// line is one of these.
func (t *textReader) variable(line []byte) bool {
	if !bytes.Contains(line, setByEnvironment) {
		return false
	}
	m := setByLog.FindSubmatch(line)
	if m == nil {
		return true
	}
	name, value := string(m[1]), strings.Trim(string(m[2][:min(len(m[2]), longestValue)]), `"'`)
	if t.run.variables[name] != value {
		if t.flush(); len(t.run.rows) > 0 {
			t.goOn()
		}
		t.run.variables = with(t.run.variables, variables{name: value})
	}
	return true
}

// goOn ends a run and begins one that goes on under the same header.
func (t *textReader) goOn() {
	t.closed(t.run)
	t.run = t.run.goOn(t.line)
}

// fresh ends a run whose header or rows were seen and begins another one.
func (t *textReader) fresh(seen bool) {
	t.flush()
	if before := t.run; seen || len(before.rows) > 0 || before.inherited {
		t.closed(t.run)
		t.run = newRun(t.r.File, t.line, before.mark)
		if before.header && len(before.rows) == 0 && before.failure.line == 0 {
			t.run.headers = before.headers
		}
	}
}

// number takes a line that begins with a number: a row, the rest of one, or noise. If nccl-tests fails in the middle
// of a row, it says so on the same line.
func (t *textReader) number(line []byte, cut bool) {
	if i := bytes.Index(line, []byte(": Test ")); i > 0 && t.run.failure.scan(t.line, line[i+2:], false) {
		t.number(line[:bytes.LastIndexByte(line[:i], ' ')+1], false)
		t.flush()
		return
	}
	switch tokens := tokensOf(line, t.tokens[:]); {
	case beginsRow(tokens):
		t.flush()
		t.run.tellTime(line) // of nccl-tests' -S
		t.row(line, t.line, false, cut)
	case len(t.pending) > 0 && len(tokens) > 0 && isTime(tokens[0]):
		t.pending = append(append(t.pending, ' '), line...)
		t.row(t.pending, t.pendingLine, len(t.pending) > longestRow, false)
	}
}

// hold keeps a piece of a row until the rest comes.
func (t *textReader) hold(piece []byte) {
	if len(t.pending) == 0 {
		t.pendingLine = t.line
	}
	if len(t.pending) < longestRow {
		t.pending = append(t.pending, piece...)
	}
}

// flush gives up waiting for the rest of a row.
func (t *textReader) flush() {
	if len(t.pending) > 0 {
		t.row(t.pending, t.pendingLine, true, false)
	}
}

// row takes the text of a row that begins at a line. It holds what is not whole, unless no more of it can come: it is
// the last, or the file is cut in it, whose last number may lack digits.
func (t *textReader) row(text []byte, at int, last, cut bool) {
	isPending := len(t.pending) > 0
	rows, whole := t.run.columns.readRow(tokensOf(text, t.tokens[:]), &t.rows)
	if whole && cut && len(text) < t.length {
		rows, whole = rows[:len(rows)-1], false
		if len(rows) > 0 {
			rows[0].Config = noLabel // it may be that of the channels
		}
	}
	switch {
	case whole && !isPending:
		t.length = len(text)
	case whole:
	case rows == nil && !isPending:
		return
	case !last && !cut:
		if !isPending {
			t.hold(text)
		}
		return
	case rows == nil:
		t.r.reject(at, 1, rejectMalformed)
	default:
		t.sawRow = true
		t.r.reject(at, t.run.columns.halves-len(rows), rejectTruncated)
	}
	if t.pending = t.pending[:0]; len(rows) == 0 {
		return
	}
	t.sawRow = true
	if t.run.footer { // rows after the last lines: those of a run without a header
		t.goOn()
		t.run.mentions.of = nil
	}
	if len(t.run.rows) == 0 {
		t.said.take(&t.run.mentions)
	}
	source := t.r.File + ":" + strconv.Itoa(at)
	for i := range rows {
		rows[i].line, rows[i].Source = at, source
	}
	t.run.rows = append(t.run.rows, rows...)
}

// header takes a line of a run's header or last lines. It reports whether it was
// one.
func (t *textReader) header(line []byte) bool {
	body := bytes.TrimLeft(line, "# \t")
	begins := func(with string) bool { return bytes.HasPrefix(body, []byte(with)) }
	switch run := t.run; {
	case begins("nccl-tests version"), begins("NCCL Tests compiled"):
		t.fresh(run.header || run.footer || run.columns.known)
	case begins("tunefit sweep "):
		m := markOf(body)
		if m == nil {
			return false
		}
		t.fresh(run.header)
		t.run.mark = m
	case begins("Collective test starting:"):
		t.fresh(run.program != "" || run.header)
		_, program, _ := bytes.Cut(body, []byte(":"))
		t.run.program = string(bytes.TrimSpace(program))
	case begins("nThread "):
		t.fresh(run.header || run.columns.known)
		t.run.header = true
		t.run.headers++
		t.said.take(&t.run.mentions)
		t.run.line = t.line
		t.settings(string(body))
	case begins("Using devices"):
		t.fresh(run.devices.ranks != nil || run.columns.known)
	case begins("Rank "):
		return t.device(body)
	case begins("Reducing maxBytes"):
		t.r.note(t.line, "%s", quoted(body))
	case begins("Out of bounds values"):
		t.flush()
		run.failed = bytes.HasSuffix(bytes.TrimSpace(body), []byte("FAILED"))
		run.footer = len(run.rows) > 0
		run.footers++
	case begins("Avg bus bandwidth"), begins("Collective test concluded"):
		t.flush()
		run.footer = len(run.rows) > 0
	case begins("Blocking Enabled"):
		run.settings = with(run.settings, settings{"-z": 1})
		t.r.note(t.line, noteBlocking)
	default:
		return t.names(line)
	}
	return true
}

var steps = regexp.MustCompile(`minBytes ([0-9]+) maxBytes ([0-9]+) step: ([0-9]+)\((factor|bytes)\)`)

// settings reads "nThread 1 nGpus 8 minBytes 8 ... graph: 0".
func (t *textReader) settings(body string) {
	t.run.settings = settingsOf(body, inHeader)
	if m := steps.FindStringSubmatch(body); m != nil {
		var n [3]uint64
		for i := range n {
			n[i], _ = strconv.ParseUint(m[i+1], 10, 64)
		}
		t.run.sizes = stepsOf(n[0], n[1], n[2], m[4] == "factor")
	}
	if t.run.settings["-G"] > 0 {
		t.r.note(t.line, noteGraphs)
	}
	if strings.Contains(body, "side_work: 1") {
		t.r.note(t.line, noteSideWork)
	}
}

// stepsOf returns the sizes from the first to the last.
func stepsOf(first, last, step uint64, isFactor bool) (sizes []uint64) {
	const most = 512 // a run that steps through more is not one that tunefit asks for
	for size := first; size <= last && len(sizes) < most; {
		sizes = append(sizes, size)
		switch {
		case isFactor && step > 1 && size > 0 && size <= math.MaxUint64/step:
			size *= step
		case !isFactor && step > 0 && size <= math.MaxUint64-step:
			size += step
		default:
			return sizes
		}
	}
	return sizes
}

// deviceLine is "Rank  0 Group  0 Pid   12 on   HOST device  0 [0000:1b:00] NAME". Group and Pid came with later
// versions.
var deviceLine = regexp.MustCompile(
	`^Rank +([0-9]+) (?: *Group +(\S+) )?(?: *Pid +([0-9]+) )? *on +(\S+) device +(\S+)(?: +\[([^\]]*)\] ?(.*))?`)

func (t *textReader) device(body []byte) bool {
	m := deviceLine.FindStringSubmatch(string(body))
	if m == nil {
		return false
	}
	if t.run.inherited || len(t.run.rows) > 0 {
		t.fresh(true)
	}
	host, process := m[4], ""
	if m[3] != "" {
		process = host + ":" + m[3]
	}
	t.hosts[host] = true
	group := m[2]
	if group == "" {
		group = "0"
	}
	t.run.devices.add(group, m[1], host, process, m[5]+" "+m[6], m[7])
	t.join(process)
	return true
}

// names reads the line that names the columns, and the one above it that names
// the halves.
func (t *textReader) names(line []byte) bool {
	if !bytes.Contains(line, []byte("time")) {
		if bytes.Contains(line, []byte("in-place")) && line[0] == '#' {
			t.fresh(t.run.columns.known)
			t.run.columns.inPlaceOnly = !bytes.Contains(line, []byte("out-of-place"))
		}
		return false
	}
	c, ok := headerColumns(tokensOf(line, t.tokens[:]))
	if ok {
		t.fresh(t.run.columns.known)
		c.inPlaceOnly = t.run.columns.inPlaceOnly && c.halves == 1
		t.run.columns = c
	}
	return ok
}

// join reads NCCL's log of a process of the run, where that is in a file of its own.
func (t *textReader) join(process string) {
	if t.logOf == nil || process == "" || process == t.run.joined { // the ranks of a process follow each other
		return
	}
	log := t.logOf(process)
	if log == nil {
		return
	}
	t.run.joined = process
	for line := range bytes.Lines(log) {
		if l, ok := t.hosts.split(bytes.TrimRight(line, "\r\n")); ok && l.hostPID() == process {
			t.log(l)
		}
	}
}
