package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// textReader reads the printed output of nccl-tests: one or many runs, between lines of launchers, of NCCL's log and of
// anything else.
type textReader struct {
	r      *Result
	logOf  func(process string) []byte
	closed func(*testRun) // takes each run that has ended
	scanner
	*stream
	streams map[string]*stream // by their tags, where several processes print headers

	line    int
	sawRow  bool
	process string     // the first in NCCL's log, as host:pid
	tokens  [64][]byte // of the last row
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
	t := &textReader{r: r, logOf: logOf, closed: closed, scanner: scanner{hosts: map[string]bool{}},
		stream: &stream{run: newRun(r.File, 1, noMark)}}
	start, _ := in.Peek(64 << 10)
	start = bytes.Clone(start)
	t.streamsOf(start)
	for err := error(nil); err == nil; {
		var line []byte
		if line, err = readLine(in); err != nil && err != io.EOF {
			return fmt.Errorf("%s:%d: %w", r.File, t.line, err)
		}
		if len(line) > 0 {
			t.line++
			line = plain(line)
			cut := err == io.EOF && bytes.IndexByte(line, '\n') < 0
			for part := range bytes.SplitSeq(line, []byte("\n")) {
				t.take(part, cut)
			}
			if err := r.tooMany(len(t.run.rows)); err != nil {
				return fmt.Errorf("%s:%d: %w", r.File, t.line, err)
			}
		}
	}
	for _, tag := range slices.Sorted(maps.Keys(t.streams)) {
		t.stream = t.streams[tag]
		t.flush()
		t.closed(t.run)
	}
	switch same := beginning(start); {
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
	first, lines, heads := "", map[string]int{}, map[string]bool{}
	for line := range bytes.Lines(start) {
		tag, text := t.part(plain(line))
		if first == "" {
			first = t.tag
		}
		of := streamOf(tag)
		lines[of]++
		heads[of] = heads[of] || bytes.HasPrefix(bytes.TrimLeft(text, "# "), []byte("nThread "))
	}
	const few = 3 // a number of a line and the like do not repeat
	maps.DeleteFunc(heads, func(of string, has bool) bool { return !has || lines[of] < few })
	t.tag, t.streams = first, map[string]*stream{"": t.stream}
	if len(heads) > 1 {
		for of := range heads {
			t.streams[of] = &stream{run: newRun(t.r.File, 1, noMark)}
		}
	}
}

var clockTime = regexp.MustCompile(`\S*[0-9]{2}:[0-9]{2}\S*`)

// streamOf is a tag without the time.
func streamOf(tag []byte) string { return strings.TrimSpace(string(clockTime.ReplaceAll(tag, nil))) }

// beginning is what all lines of a text begin with.
func beginning(text []byte) (same []byte) {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimRight(line, "\r\n"); len(line) == 0 {
			continue
		}
		if same == nil {
			same = line[:min(len(line), longestQuote)]
		}
		n := 0
		for n < min(len(same), len(line)) && same[n] == line[n] {
			n++
		}
		same = same[:n]
	}
	return bytes.TrimSpace(same)
}

// take takes a line. cut: the file ends in it.
func (t *textReader) take(line []byte, cut bool) {
	tag, text := t.part(line)
	if len(t.streams) > 1 {
		t.stream = cmp.Or(t.streams[streamOf(tag)], t.stream)
	}
	if l, ok := t.log(text); ok {
		t.logged(l)
		return
	}
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return
	}
	switch first := text[0]; {
	case '0' <= first && first <= '9' && t.row(text, cut):
		return
	case len(t.pending) > 0 && isTime(tokensOf(text, t.tokens[:1])[0]): // the rest of one
		t.piece(text, cut)
		return
	case first == '#':
		t.flush()
	}
	switch {
	case t.run.failure.scan(t.line, text, false), t.header(text), t.variable(text):
	case t.said.scan(t.line, text) && len(t.run.rows) > 0:
		if t.flush(); !t.run.ended { // rows under a heading of their own
			t.goOn()
			t.run.mentions.of = nil
		}
	}
	t.run.tell(nil, text) // NCCL's log may have lost its head
}

// logged takes a line of NCCL's log, and the piece of a row before it.
func (t *textReader) logged(l logLine) {
	if t.process == "" {
		t.process = string(l.host)
	}
	if piece := bytes.TrimSpace(l.row); len(piece) > 0 && !t.row(piece, false) && len(t.pending) > 0 {
		t.piece(piece, false)
	}
	isVariable := bytes.Contains(l.said, setByEnvironment)
	if t.run.ended && (isVariable || bytes.Contains(l.said, []byte(" nRanks "))) {
		t.begin(true) // the header of the next run is still to come
	}
	if isVariable {
		t.variable(l.said)
	}
	t.run.failure.scan(t.line, l.said, true)
	t.run.tell(l.host, l.said)
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
	if t.run.settings[name] != value {
		if t.flush(); len(t.run.rows) > 0 {
			t.goOn()
		}
		t.run.settings = t.run.settings.with(settings{name: value})
	}
	return true
}

// goOn ends a run and begins one that goes on under the same header.
func (t *textReader) goOn() {
	t.closed(t.run)
	t.run = t.run.goOn(t.line)
}

// begin ends a run of which something was seen and begins another one.
func (t *textReader) begin(seen bool) {
	t.flush()
	if before := t.run; seen || len(before.rows) > 0 || before.inherited {
		t.closed(t.run)
		t.run = newRun(t.r.File, t.line, before.mark)
		t.run.mixed = before.mixed
		if len(before.rows) == 0 && before.failure.line == 0 {
			t.run.headers = before.headers
		}
	}
}

// beginHeader begins a run at the start of a header. Where the one before it has listed no device, it is another
// process's.
func (t *textReader) beginHeader(seen bool) {
	before := t.run
	t.begin(seen)
	if t.run != before {
		t.run.mixed = before.header && before.devices.ranks == nil && !before.layout.known && len(before.rows) == 0 &&
			before.failure.line == 0
	}
}

// row takes a line that begins with a row. If nccl-tests fails in the middle of one, it says so on the same line.
func (t *textReader) row(line []byte, cut bool) bool {
	if _, isRow := rowAt(line); !isRow && !(t.run.layout.known && beginsRow(tokensOf(line, t.tokens[:]))) {
		return false
	}
	t.flush()
	if i := bytes.Index(line, []byte(": Test ")); i > 0 && t.run.failure.scan(t.line, line[i+2:], false) {
		line = line[:bytes.LastIndexByte(line[:i], ' ')+1]
		defer t.flush()
	}
	t.run.tellTime(line) // of nccl-tests' -S
	t.piece(line, cut)
	return true
}

// piece takes a row, or a piece of one. cut: the file ends in it, so its last number may lack digits.
func (t *textReader) piece(text []byte, cut bool) {
	if len(t.pending) == 0 {
		t.pendingLine = t.line
	}
	t.pending = append(append(t.pending, text...), ' ')
	rows, whole := t.run.layout.readRow(tokensOf(t.pending, t.tokens[:]), &t.rows)
	switch cut = cut && len(text) < t.length; {
	case whole && !cut:
		t.length, t.pending = len(text), t.pending[:0]
		t.add(rows)
	case cut || len(t.pending) > longestRow:
		t.flush()
	}
}

// flush gives up waiting for the rest of a row, and keeps those of its times that are whole.
func (t *textReader) flush() {
	if len(t.pending) == 0 {
		return
	}
	rows, whole := t.run.layout.readRow(tokensOf(t.pending, t.tokens[:]), &t.rows)
	t.pending = t.pending[:0]
	if whole { // the file ends in it
		rows = rows[:len(rows)-1]
	}
	if rows == nil {
		t.r.reject(t.pendingLine, 1, rejectMalformed)
		return
	}
	t.sawRow = true
	t.r.reject(t.pendingLine, t.run.layout.halves-len(rows), rejectTruncated)
	for i := range rows {
		rows[i].Config = noLabel // it stands at the end of a row
	}
	t.add(rows)
}

// add adds the times of a row to the run.
func (t *textReader) add(rows []row) {
	if len(rows) == 0 {
		return
	}
	t.sawRow = true
	if t.run.ended { // those of a run without a header
		t.goOn()
		t.run.mentions.of = nil
	}
	if len(t.run.rows) == 0 {
		t.said.take(&t.run.mentions)
	}
	source := t.r.File + ":" + strconv.Itoa(t.pendingLine)
	for i := range rows {
		rows[i].line, rows[i].Source = t.pendingLine, source
	}
	if n := len(t.run.rows); n+len(rows) > cap(t.run.rows) { // append grows long lists by a quarter
		t.run.rows = slices.Grow(t.run.rows, n+len(rows))
	}
	t.run.rows = append(t.run.rows, rows...)
}

// header takes a line of a run's header or last lines. It reports whether it was one. What stands above what the run
// has begins another one.
func (t *textReader) header(line []byte) bool {
	body := bytes.TrimLeft(line, "# \t")
	begins := func(with string) bool { return bytes.HasPrefix(body, []byte(with)) }
	switch run := t.run; {
	case begins("nccl-tests version"), begins("NCCL Tests compiled"):
		t.beginHeader(run.header || run.ended || run.layout.known)
	case begins("tunefit sweep "):
		m := markOf(body)
		if !m.is {
			return false
		}
		t.begin(run.header)
		t.run.mark = m
	case begins("Collective test starting:"):
		t.beginHeader(run.program != "" || run.header)
		_, program, _ := bytes.Cut(body, []byte(":"))
		t.run.program = string(bytes.TrimSpace(program))
	case begins("nThread "):
		t.beginHeader(run.header || run.layout.known)
		t.run.header = true
		t.run.headers++
		t.said.take(&t.run.mentions)
		t.run.line = t.line
		t.settings(string(body))
	case begins("Using devices"):
		t.begin(run.devices.ranks != nil || run.layout.known)
	case begins("Rank "):
		return t.device(body)
	case begins("Out of bounds values"):
		t.flush()
		run.failed = bytes.HasSuffix(bytes.TrimSpace(body), []byte("FAILED"))
		run.ended = len(run.rows) > 0
		run.ends++
	case begins("Avg bus bandwidth"), begins("Collective test concluded"):
		t.flush()
		run.ended = len(run.rows) > 0
	case begins("Blocking Enabled"):
		run.settings = run.settings.with(settings{"-z": "1"})
		t.r.note(t.line, noteBlocking)
	default:
		return t.names(line)
	}
	return true
}

var steps = regexp.MustCompile(`minBytes ([0-9]+) maxBytes ([0-9]+) step: ([0-9]+)\((factor|bytes)\)`)

// settings reads "nThread 1 nGpus 8 minBytes 8 ... graph: 0".
func (t *textReader) settings(body string) {
	t.run.settings = t.run.settings.with(settingsOf(body, inHeader))
	if m := steps.FindStringSubmatch(body); m != nil {
		var n [3]uint64
		for i := range n {
			n[i], _ = strconv.ParseUint(m[i+1], 10, 64)
		}
		t.run.sizes = stepsOf(n[0], n[1], n[2], m[4] == "factor")
	}
	if atoi(t.run.settings["-G"]) > 0 {
		t.r.note(t.line, noteGraphs)
	}
	if strings.Contains(body, "side_work: 1") {
		t.r.note(t.line, noteSideWork)
	}
}

// stepsOf returns the sizes from the first to the last.
func stepsOf(first, last, step uint64, isFactor bool) (sizes []uint64) {
	const most = 512 // a run that steps through more is not one that tunefit asks for
	for size, next := first, first; size <= last && len(sizes) < most; size = next {
		sizes = append(sizes, size)
		if next = size + step; isFactor {
			next = size * step
		}
		if next <= size || isFactor && next/step != size { // it does not grow, or overflows
			break
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
		t.begin(true)
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
			t.begin(t.run.layout.known)
			t.run.layout.inPlaceOnly = !bytes.Contains(line, []byte("out-of-place"))
		}
		return false
	}
	c, ok := layoutOf(tokensOf(line, t.tokens[:]))
	if ok {
		t.begin(t.run.layout.known)
		c.inPlaceOnly = t.run.layout.inPlaceOnly && c.halves == 1
		t.run.layout = c
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
		if l, ok := t.log(bytes.TrimRight(line, "\r\n")); ok && string(l.host) == process {
			t.logged(l)
		}
	}
}
