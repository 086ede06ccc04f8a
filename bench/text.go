package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// textReader reads the printed output of nccl-tests: one or many runs, between lines
// of launchers, of NCCL's log and of anything else.
type textReader struct {
	r *Result
	*stream

	line    int
	hosts   hosts
	prefix  linePrefix
	streams map[string]*stream // by what a launcher puts before their lines; one, unless several print headers
	same    []byte             // how all lines so far begin; nil: there was none
	sawRow  bool
	process string // the first in NCCL's log, as host:pid
	tokens  [64][]byte
}

// stream is what one process prints.
type stream struct {
	run  *testRun
	said mentions // since the last table
	// pending is the start of a row that NCCL's log split.
	pending     []byte
	pendingLine int
	leading     int // leading columns of the rows so far
	length      int // of the last whole row's line
}

func readText(in *bufio.Reader, r *Result) error {
	t := newText(r)
	start, _ := in.Peek(64 << 10)
	t.streamsOf(start)
	var long []byte
	for {
		line, err := in.ReadSlice('\n')
		for err == bufio.ErrBufferFull {
			if len(long) < longestLine {
				long = append(long, line...)
			}
			line, err = in.ReadSlice('\n')
		}
		if len(long) > 0 {
			if len(long) < longestLine {
				long = append(long, line...)
			}
			line, long = long, long[:0]
		}
		if err != nil && err != io.EOF {
			return fmt.Errorf("%s:%d: %w", r.File, t.line, err)
		}
		if len(line) > 0 {
			t.line++
			t.common(line)
			whole, parts := bytes.HasSuffix(line, []byte("\n")), linesOf(line)
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
				r.reject(t.line, 1, rejectPrefix)
			default:
				t.read(bytes.TrimRight(line, "\r\n"), !whole)
			}
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
		t.finish()
	}
	if !t.sawRow && t.process != "" && len(r.Notes) == 0 {
		return &LogApart{r.File, t.process}
	}
	if !t.sawRow && len(r.Notes) == 0 {
		if same := bytes.TrimSpace(t.same); len(same) > 1 && t.line > 2 {
			return fmt.Errorf("%s: %w; every line begins with %q, and what follows is not understood", r.File,
				errNotSweep, same)
		}
		return fmt.Errorf("%s: %w", r.File, errNotSweep)
	}
	return nil
}

func newText(r *Result) *textReader {
	t := &textReader{r: r, stream: &stream{run: newRun(1)}, hosts: hosts{}}
	t.streams = map[string]*stream{"": t.stream}
	return t
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
			t.streams[label] = &stream{run: newRun(1)}
		}
	}
}

// common keeps how all lines begin.
func (t *textReader) common(line []byte) {
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
}

// read takes one line. cut: the file ends in it.
func (t *textReader) read(line []byte, cut bool) {
	if l, ok := t.hosts.split(line); ok {
		t.log(l)
		if !bytes.Contains(l.message, []byte(" Bytes ")) {
			said := line[len(l.row):]
			t.run.metadata.failure.warn(t.line, said)
			t.run.metadata.read(said)
		}
		return
	}
	trimmed := bytes.TrimLeft(line, " \t")
	if len(trimmed) == 0 {
		return
	}
	switch c := trimmed[0]; {
	case c >= '0' && c <= '9' && !bytes.Contains(trimmed, []byte("CCL_")) &&
		!bytes.Contains(trimmed, []byte("_perf")), len(t.pending) > 0 && (c == '-' || c == 'N'):
		t.number(line, cut)
		return
	case c == '#':
		t.flush()
	}
	switch {
	case t.run.metadata.failure.read(t.line, trimmed):
	case t.header(trimmed):
	case bytes.Contains(trimmed, setByEnvironment): // NCCL's log without its head
		t.variable(trimmed)
	default:
		if t.said.read(t.line, trimmed) && len(t.run.rows) > 0 {
			if t.flush(); !t.run.footer { // rows under a heading of their own
				t.next()
				t.run.mentions.of = nil
			}
		}
		// What NCCL's log says, kept without its head.
		t.run.log.read("", trimmed)
	}
	t.run.metadata.read(trimmed)
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
	isEnv, isComm := bytes.Contains(l.message, setByEnvironment), bytes.Contains(l.message, []byte(" nRanks "))
	if t.run.footer && (isEnv || isComm) {
		t.fresh(true) // of the next run, whose header is still to come
	}
	switch {
	case isEnv:
		t.variable(l.message)
	case isComm:
		t.communicator(l.message)
	default:
		t.run.log.read(l.process, l.message)
	}
}

// communicator reads "... nRanks 16 nNodes 2 localRanks 8 ...". NCCL tells its tuner
// the same number of nodes.
func (t *textReader) communicator(message []byte) {
	words := tokensOf(message, t.tokens[:])
	for i := 0; i+1 < len(words); i++ {
		switch string(words[i]) {
		case "nRanks":
			t.run.comm.Ranks = atoi(words[i+1])
		case "nNodes":
			t.run.comm.Nodes = atoi(words[i+1])
		}
	}
}

// variable takes what NCCL's log tells of one. Rows so far ran with the variables as they were.
func (t *textReader) variable(message []byte) {
	v := t.run.variables
	if !v.log(message) {
		return
	}
	if t.flush(); len(t.run.rows) > 0 {
		t.next()
	}
	t.run.variables = v
}

func (t *textReader) finish() { t.run.finish(t.r) }

// next ends a run and begins one that goes on under the same header.
func (t *textReader) next() {
	t.finish()
	before := t.run
	t.run = &testRun{
		line: t.line, program: before.program, threads: before.threads, settings: before.settings,
		devices: before.devices, listed: before.listed, comm: before.comm, columns: before.columns, inherited: true,
		headers: before.headers, whole: before.whole,
		metadata: before.metadata, log: newTuningLog(), variables: before.variables, mentions: before.mentions,
	}
	t.run.metadata.failure = failure{}
}

// fresh ends a run whose header or rows were seen and begins another one.
func (t *textReader) fresh(seen bool) {
	t.flush()
	if seen || len(t.run.rows) > 0 || t.run.inherited {
		t.finish()
		before := t.run
		t.run = newRun(t.line)
		if before.header && len(before.rows) == 0 && before.metadata.failure.line == 0 {
			t.run.headers = before.headers
		}
		t.leading = 0
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

// number takes a line that begins with a number: a row, the rest of one, or noise. If nccl-tests fails in the middle
// of a row, it says so on the same line.
func (t *textReader) number(line []byte, cut bool) {
	if i := bytes.Index(line, []byte(": Test ")); i > 0 && t.run.metadata.failure.read(t.line, line[i+2:]) {
		t.number(line[:bytes.LastIndexByte(line[:i], ' ')+1], false)
		t.flush()
		return
	}
	tokens := tokensOf(line, t.tokens[:])
	if !beginsRow(tokens) {
		if len(t.pending) == 0 || len(tokens) == 0 || !isTime(tokens[0]) {
			return
		}
		t.pending = append(append(t.pending, ' '), line...)
		t.tryPending(len(t.pending) > longestRow)
		return
	}
	t.flush()
	t.run.metadata.timed(line) // of nccl-tests' -S
	rows, n, leading, outcome := t.run.columns.readRow(tokens, t.leading)
	if outcome == rowComplete && cut && len(line) < t.length {
		n, outcome = n-1, rowPartial // the last number may lack digits
		rows[0].Config = noLabel     // it may be that of the channels
	}
	switch outcome {
	case rowComplete:
		t.length = len(line)
		t.keep(rows[:n], leading, t.line)
	case rowPartial:
		if !cut {
			t.hold(line) // the rest may follow
			return
		}
		t.partial(rows[:max(n, 0)], leading, t.line)
	}
}

// flush gives up waiting for the rest of a row.
func (t *textReader) flush() {
	if len(t.pending) > 0 {
		t.tryPending(true)
	}
}

// tryPending keeps the held row if it is whole by now, or what there is of it at the end.
func (t *textReader) tryPending(end bool) {
	rows, n, leading, outcome := t.run.columns.readRow(tokensOf(t.pending, t.tokens[:]), t.leading)
	if outcome != rowComplete && !end {
		return
	}
	t.pending = t.pending[:0]
	switch outcome {
	case rowComplete:
		t.keep(rows[:n], leading, t.pendingLine)
	case rowPartial:
		t.partial(rows[:n], leading, t.pendingLine)
	default:
		t.r.reject(t.pendingLine, 1, rejectMalformed)
	}
}

func (t *textReader) partial(rows []row, leading, line int) {
	t.sawRow = true
	t.r.reject(line, t.run.columns.halves-len(rows), rejectTruncated)
	if len(rows) > 0 {
		t.keep(rows, leading, line)
	}
}

func (t *textReader) keep(rows []row, leading, line int) {
	t.sawRow = true
	if t.run.footer { // rows after the last lines: those of a run without a header
		t.next()
		t.run.mentions.of = nil
	}
	if len(t.run.rows) == 0 {
		t.run.mentions.join(t.said.take())
	}
	if leading < len(t.run.columns.names) {
		t.run.blankRedOp = true
	}
	t.leading = leading
	source := t.r.File + ":" + strconv.Itoa(line)
	for i := range rows {
		rows[i].line, rows[i].Source = line, source
	}
	t.run.rows = append(t.run.rows, rows...)
}

// header takes a line of a run's header or last lines. It reports whether it was
// one.
func (t *textReader) header(line []byte) bool {
	body := bytes.TrimLeft(line, "# \t")
	switch {
	case bytes.HasPrefix(body, []byte("nccl-tests version")), bytes.HasPrefix(body, []byte("NCCL Tests compiled")):
		t.fresh(t.run.header || t.run.footer || t.run.columns.known)
	case bytes.HasPrefix(body, []byte("tunefit sweep ")):
		return t.marked(body)
	case bytes.HasPrefix(body, []byte("Collective test starting:")):
		t.fresh(t.run.program != "" || t.run.header)
		t.run.program = string(bytes.TrimSpace(body[len("Collective test starting:"):]))
	case bytes.HasPrefix(body, []byte("nThread ")):
		t.fresh(t.run.header || t.run.columns.known)
		t.run.header = true
		t.run.headers++
		t.run.mentions.join(t.said.take())
		t.run.line = t.line
		t.settings(body)
	case bytes.HasPrefix(body, []byte("Using devices")):
		t.fresh(t.run.devices.ranks != nil || t.run.columns.known)
	case bytes.HasPrefix(body, []byte("Rank ")):
		return t.device(body)
	case bytes.HasPrefix(body, []byte("Reducing maxBytes")):
		t.r.note(t.line, "%s", quoted(body))
	case bytes.HasPrefix(body, []byte("Out of bounds values")):
		t.flush()
		t.run.failed = bytes.HasSuffix(bytes.TrimSpace(body), []byte("FAILED"))
		t.run.footer = len(t.run.rows) > 0
		t.run.footers++
	case bytes.HasPrefix(body, []byte("Avg bus bandwidth")), bytes.HasPrefix(body, []byte("Collective test concluded")):
		t.flush()
		t.run.footer = len(t.run.rows) > 0
	case bytes.HasPrefix(body, []byte("Blocking Enabled")):
		t.run.Blocking = 1
		t.r.note(t.line, "times include waiting after each operation (-z)")
	default:
		return t.names(line)
	}
	return true
}

// settings reads "nThread 1 nGpus 8 minBytes 8 ... graph: 0".
func (t *textReader) settings(body []byte) {
	words := tokensOf(body, t.tokens[:])
	var s settings
	var first, last uint64
	for i := 0; i+1 < len(words); i++ {
		switch value := words[i+1]; string(words[i]) {
		case "minBytes":
			first, _ = strconv.ParseUint(string(value), 10, 64)
		case "maxBytes":
			last, _ = strconv.ParseUint(string(value), 10, 64)
		case "step:":
			t.run.sizes = stepsOf(first, last, string(value))
		case "nThread":
			s.Threads = atoi(value)
		case "nGpus":
			s.GPUs = atoi(value)
		case "iters:":
			switch string(words[max(i, 1)-1]) {
			case "warmup":
				s.WarmUp = atoi(value)
			case "agg":
				s.Aggregated = atoi(value)
			default:
				s.Iterations = atoi(value)
			}
		case "unalign:":
			s.Skew = atoi(value)
		case "graph:":
			s.Graph = atoi(value)
		}
	}
	t.run.set(t.r, t.line, s)
	if bytes.Contains(body, []byte("side_work: 1")) {
		t.r.note(t.line, "other work ran beside the operations")
	}
}

// device reads "Rank  0 Group  0 Pid   12 on   HOST device  0 [...] NAME". Group
// and Pid came with later versions.
func (t *textReader) device(body []byte) bool {
	words := tokensOf(body, t.tokens[:12])
	on := slices.IndexFunc(words, func(w []byte) bool { return string(w) == "on" })
	if on < 2 || on+3 >= len(words) || string(words[on+2]) != "device" || !isNumber(words[1]) {
		return false
	}
	group := "0"
	if string(words[2]) == "Group" {
		group = string(words[3])
	}
	if t.run.inherited || len(t.run.rows) > 0 {
		t.fresh(true)
	}
	host, process := string(words[on+1]), ""
	if string(words[on-2]) == "Pid" {
		process = host + ":" + string(words[on-1])
	}
	t.hosts[host] = true
	address, name, _ := bytes.Cut(body[bytes.IndexByte(body, '[')+1:], []byte("] "))
	t.run.devices.add(group, string(words[1]), host, process, string(words[on+3])+" "+string(address))
	t.run.metadata.gpu(string(name))
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
	if !ok {
		return false
	}
	t.fresh(t.run.columns.known)
	c.inPlaceOnly = t.run.columns.inPlaceOnly && c.halves == 1
	t.run.columns = c
	return true
}

// join reads NCCL's log of a process of the run, where that is in a file of its own.
func (t *textReader) join(process string) {
	if t.r.opts.LogOf == nil || process == "" || process == t.run.joined { // the ranks of a process follow each other
		return
	}
	log := t.r.opts.LogOf(process)
	if log == nil {
		return
	}
	t.run.joined = process
	for line := range bytes.Lines(log) {
		if l, ok := t.hosts.split(bytes.TrimRight(line, "\r\n")); ok && l.hostPID() == process {
			t.log(l)
			t.run.metadata.read(l.message)
		}
	}
}

// marked takes such a line, which begins another run.
func (t *textReader) marked(body []byte) bool {
	m := markLine.FindSubmatch(body)
	if m == nil {
		return false
	}
	t.fresh(t.run.header)
	nodes := atoi(m[2])
	t.r.mark = mark{is: true, coll: fold(string(m[1])), Comm: nccl.Comm{Nodes: nodes, Ranks: nodes * atoi(m[3])},
		verify: string(m[4]) == verifyWord, asked: noLabel}
	if c, err := nccl.ParseConfig(string(m[5])); err == nil {
		t.r.mark.asked = c
	}
	return true
}

// set keeps the options of a run.
func (u *testRun) set(r *Result, line int, s settings) {
	if s.Graph > 0 {
		r.note(line, "times are those of CUDA graph launches (-G)")
	}
	if s.Threads < 1 || s.GPUs < 1 || s.Threads > 1<<16 || s.GPUs > 1<<16 {
		return
	}
	u.threads = s.Threads * s.GPUs
	u.settings = s
}
