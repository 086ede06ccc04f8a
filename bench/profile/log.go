package profile

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
)

// jobLog is what NCCL's own log tells, in all files of a job. With INIT it tells communicators. With COLL each rank
// logs its calls, with their communicator. With TUNING the first rank of a communicator logs what ran, without it.
type jobLog struct {
	records                      // by lines of COLL, of all ranks; what only TUNING tells counts as one, too
	members   map[member]*joined // by the address of the communicator
	processes map[process]*memberships
	last      map[processCall]nccl.Comm // the communicator that the process last made such a call on
	called    bool                      // it has lines of COLL
	unknown   int                       // calls of communicators whose ranks are not known
	Overrides
}

type member struct {
	process
	comm string
}

// joined is a communicator as one of its ranks joined it.
type joined struct {
	id string // equal on all ranks, where the log tells it
	nccl.Comm
}

// memberships are the communicators of a process.
type memberships struct {
	last  nccl.Comm
	mixed bool // their shapes differ
	ran   bool // it logged what ran
}

type processCall struct {
	process
	nccl.Call // its bytes are those that the log tells
}

// Overrides are what keeps calls of a job from a policy, as its log tells.
type Overrides struct {
	NCCL      string   // the release that ran, as 2.29.2 or RCCL 2.26.6; "": not known
	Variables []string // NCCL_ALGO and NCCL_PROTO, as NCCL_ALGO=Ring
	Direct    bool     // RCCL's direct access was ready
	inits     bool     // the log has communicators
	ours      bool     // and lines of the library
	offered   map[nccl.Coll]map[nccl.Cell]bool
}

// NotLoaded reports that no communicator had the library.
func (o *Overrides) NotLoaded() bool { return o.inits && !o.ours }

// Lacks reports that NCCL did not have a cell for a collective, by the library's log.
func (o *Overrides) Lacks(coll nccl.Coll, cell nccl.Cell) bool {
	return o.offered[coll] != nil && !o.offered[coll][cell]
}

// LogVariables are those with which a job's log tells what NCCL ran, and who decided.
const LogVariables = "NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=INIT,ENV,TUNING,COLL, and with the library " +
	"NCCL_TUNER_LOG=decisions"

// mostLine bounds a line of a log. NCCL and the library write none that is longer.
const mostLine = 1 << 20

// Log reads a job's log: NCCL's own lines, and the library's decisions, which tell once for each shape of a call who
// decides. A log with neither is an error.
func (j *Job) Log(name string, in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<16), mostLine)
	d := &decisions{map[string]nccl.Comm{}, map[string][]record.Decision{}}
	found := false
	for n := 1; lines.Scan(); n++ {
		line := lines.Bytes()
		if at := bytes.Index(line, []byte(`{"`)); at >= 0 {
			if text, ok := bench.Unwrap(line[at:]); ok {
				line = text
			}
		}
		e, err := record.ReadEvent(line)
		if err != nil {
			return fmt.Errorf("%s:%d: a line of the library that cannot be read: %w", name, n, err)
		}
		if j.log.NCCL == "" && bytes.Contains(line, []byte("CL version")) {
			j.log.NCCL = bench.ReadRelease(line)
		}
		d.take(e)
		switch e := e.(type) {
		case *record.Start:
			j.log.NCCL = cmp.Or(j.log.NCCL, e.NCCL)
		case *record.Available:
			if j.log.offered[e.Coll] == nil {
				j.log.offered[e.Coll] = map[nccl.Cell]bool{}
			}
			for _, c := range e.Cells {
				j.log.offered[e.Coll][c] = true
			}
		}
		if before, message, ok := bytes.Cut(line, []byte(" NCCL INFO ")); ok {
			found = true
			j.log.line(processOf(before), message)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(d.byComm) == 0 && !found {
		return fmt.Errorf("%s: no decision of the library is in it, nor a line of NCCL's log (needed: the log of a "+
			"job with %s, or a job profile, whose first line is %q)", name, LogVariables, Head+"1")
	}
	j.decisions(d)
	return nil
}

// processOf reads "HOST:PID:THREAD [DEVICE]", behind a launcher's prefix.
func processOf(before []byte) (p process) {
	text, _, _ := strings.Cut(string(before[bytes.LastIndexByte(before, '>')+1:]), " [")
	parts := strings.Split(text[strings.LastIndexByte(text, ' ')+1:], ":")
	if n := len(parts); n >= 3 {
		p.host = parts[n-3]
		p.pid, _ = strconv.ParseUint(parts[n-2], 10, 64)
	}
	return p
}

// line takes a line of NCCL's log (src/init.cc and src/enqueue.cc of 2.30.7; package bench has those of TUNING):
//
//	comm 0x55d0 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0
//	ncclCommInitRank comm 0x55d0 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x6f3a - Init START
//	AllReduce: opCount 1 sendbuff 0x7f recvbuff 0x7f count 1 datatype 7 op 0 root 0 comm 0x55 [nranks=16] stream 0x5
func (l *jobLog) line(of process, message []byte) {
	l.ours = l.ours || bytes.Contains(message, []byte(record.Prefix))
	l.Direct = l.Direct || bytes.HasPrefix(message, []byte("ncclDdaIpcCommInit: scratch"))
	if name, value, ok := bytes.Cut(message, []byte(" set by environment to ")); ok {
		const most = 8 // processes may differ
		name, set := string(name), fmt.Sprintf("%s=%s", name, bytes.TrimRight(value, ". \r"))
		if (name == "NCCL_ALGO" || name == "NCCL_PROTO") && !slices.Contains(l.Variables, set) &&
			len(l.Variables) < most {
			l.Variables = append(l.Variables, set)
		}
		return
	}
	p := l.processes[of]
	if p == nil {
		p = &memberships{}
		l.processes[of] = p
	}
	if r, ok := bench.ReadRan(message); ok {
		l.ran(of, p, r)
		return
	}
	if !bytes.Contains(message, []byte("comm 0x")) {
		return
	}
	words, values := strings.Fields(strings.ReplaceAll(string(message), "[nranks=", "nranks ")), map[string]string{}
	for i := 0; i+1 < len(words); i++ {
		values[words[i]] = words[i+1]
	}
	number := func(word string) int {
		n, err := strconv.Atoi(strings.TrimSuffix(values[word], "]"))
		if err != nil || n < 0 || n > mostRanks {
			return 0
		}
		return n
	}
	at := member{of, values["comm"]}
	is, known := nccl.Comm{Ranks: cmp.Or(number("nRanks"), number("nranks"))}, l.members[at]
	if nodes := number("nNodes"); nodes <= is.Ranks {
		is.Nodes = nodes
	}
	isCall := values["opCount"] != ""
	switch id := values["commId"]; {
	case is.Ranks == 0 || !isCall && values["rank"] == "":
		return
	case known == nil || id != "" && id != known.id || is.Ranks != known.Ranks: // an address may be used again
		known = &joined{cmp.Or(id, fmt.Sprint(at)), is}
		l.members[at] = known
		l.comm(known.id, of, number("rank"))
	case is.Nodes > 0:
		known.Nodes = is.Nodes
	}
	if isCall {
		l.call(of, known.Comm, strings.TrimSuffix(words[0], ":"), values["count"], number("datatype"))
	} else if is.Nodes > 0 && is.Ranks > 1 {
		l.inits = true
		p.mixed = p.mixed || p.last.Ranks > 0 && p.last != is
		p.last = is
	}
}

// elementBytes are the sizes of NCCL's data types, in their order (nccl.h).
var elementBytes = [...]uint64{1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1}

// call takes a call that a rank makes.
func (l *jobLog) call(by process, of nccl.Comm, name, count string, datatype int) {
	coll, ok := nccl.Colls.Named(name)
	elements, err := strconv.ParseUint(count, 10, 64)
	if !ok || err != nil || datatype >= len(elementBytes) || elements > mostBytes || of.Ranks == 1 {
		return
	}
	call := nccl.Call{Coll: coll, Bytes: elements * elementBytes[datatype]}
	f := l.of(call, true, of)
	if f == nil {
		return
	}
	f.records++
	l.called = true
	l.last[processCall{by, call}] = of
}

// ran takes what ran: of the last such call, or of the only communicator that the process has.
func (l *jobLog) ran(by process, p *memberships, r bench.Ran) {
	coll, ok := nccl.Colls.Named(r.Operation)
	if !ok {
		return
	}
	call := nccl.Call{Coll: coll, Bytes: r.Bytes}
	of, called := l.last[processCall{by, call}]
	if !called && !p.mixed {
		of = p.last
	}
	f := l.of(call, r.PerRank, of)
	if f == nil {
		return
	}
	if !called {
		f.records++
	}
	if f.ran == nil {
		f.ran = map[nccl.Config]int{}
	}
	p.ran = true
	f.ran[r.Config]++
}

// of is where calls of a shape are counted; nil: its bytes are not known, or none.
func (l *jobLog) of(call nccl.Call, perRank bool, of nccl.Comm) *found {
	if perRank && (call.Coll == nccl.CollAllGather || call.Coll == nccl.CollReduceScatter) {
		switch {
		case of.Ranks == 0:
			l.unknown++
			return nil
		case call.Bytes > mostBytes/uint64(of.Ranks):
			return nil
		}
		call.Bytes *= uint64(of.Ranks)
	}
	if call.Bytes == 0 || call.Bytes > mostBytes {
		return nil
	}
	return &l.found[l.entry(CallKind{call, of, nccl.NoCell})]
}

// ranks are those whose calls are counted: all, else those that told what ran.
func (l *jobLog) ranks() (n int) {
	if l.called {
		return l.recorded()
	}
	for _, p := range l.processes {
		if p.ran {
			n++
		}
	}
	return n
}

// split adds the calls by what ran. All ranks run a call alike, so what the first rank logs holds for the others.
func (f *found) split(e Entry, add func(e Entry, calls float64)) {
	lines, counts := 0, map[nccl.Cell]int{}
	for as, n := range f.ran {
		lines, counts[as.Cell] = lines+n, counts[as.Cell]+n
	}
	for cell, n := range counts {
		e.Cell, e.DecidedBy = cell, ""
		if !cell.Known() {
			e.DecidedBy = ByNoTuner
		}
		most := 0
		for as, n := range f.ran { // of several channel counts the one most used
			if as.Cell == cell && (n > most || n == most && as.Channels > e.Channels) {
				most, e.Channels = n, as.Channels
			}
		}
		add(e, float64(f.records)*float64(n)/float64(lines))
	}
}

// note says what the log does not tell.
func (l *jobLog) note(p *Profile) {
	untold := 0
	for _, f := range l.found {
		if f.ran == nil {
			untold++
		}
	}
	p.note(untold, "of %d kinds of calls the log does not tell what ran (needed: TUNING in NCCL_DEBUG_SUBSYS, and the "+
		"log of the first rank)", untold)
	p.note(l.unknown, "%d calls are left out: the log does not tell the ranks of their communicator (needed: INIT and "+
		"COLL in NCCL_DEBUG_SUBSYS)", l.unknown)
	if l.Direct {
		p.note(1, "RCCL's direct access (DDA) was ready: no log has the calls that it runs, and no tuner is asked "+
			"about them (RCCL_DDA_ENABLE=0 turns it off)")
	}
}
