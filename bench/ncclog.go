package bench

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
)

// logKey identifies a call in NCCL's log.
type logKey struct {
	op    operation // empty: before NCCL 2.23 the log does not say
	bytes uint64
	pass  int // of the plan that our tuner follows, from 1; 0: it follows none, or that is the warm-up
}

// logged is what is logged of one key.
type logged struct {
	ran   map[nccl.Config]int // by NCCL's log: many calls, one line each
	total int
	best  nccl.Config // of ran, has most
	// decided is what our tuner asked for, asked what a pass did. NCCL may keep its own channels, or not have it there
	// at all: then it is missing.
	decided, asked *nccl.Config
	missing        bool
}

// tuningLog collects what NCCL and tuners log of the calls of one run.
type tuningLog struct {
	calls map[logKey]*logged // by the bytes of all ranks, or of one
	// pass is the one that each process is in.
	pass map[string]int
	// offered is what NCCL has for collectives, as our tuner says. It may differ from call to call.
	offered map[nccl.Coll]map[nccl.Cell]bool
	// pending is the question that 2.31's "Best tuning" answers, per process.
	pending   map[string]logKey
	symmetric bool // a symmetric kernel ran: no algorithm in the tuner's sense
	direct    bool // RCCL's direct access is ready: it runs calls whatever algorithm is asked for
	sharesMem bool // GPUs of a node meet in the host's memory
	most      MostChannels
	perRank   bool // lines of the form that counts one rank's bytes (2.24 on)
	// obeyed and refused count decisions of our tuner: for a configuration of its own, or for NCCL's choice.
	obeyed, refused int
}

func newTuningLog() tuningLog {
	return tuningLog{calls: map[logKey]*logged{}, pass: map[string]int{}, pending: map[string]logKey{},
		offered: map[nccl.Coll]map[nccl.Cell]bool{}}
}

// facts are lines that tell of a run: a word that they have, their parts, and what is made of them.
var facts = []struct {
	word  string
	parts *regexp.Regexp
	take  func(u *run, process string, part []string)
}{
	// NCCL version 2.29.2+cuda13.1; RCCL version : 2.26.6-Unknown
	{"CL version", releaseLine, func(u *run, _ string, part []string) { u.known.NCCL = releaseOf(part) }},
	// nccl-tests version 2.18.3 nccl-headers=22902 nccl-library=22902
	{"nccl-library=", regexp.MustCompile(`\bnccl-library=([0-9]+)`), func(u *run, _ string, part []string) {
		u.known.NCCL = cmp.Or(u.known.NCCL, versionOf(atoi(part[1])))
	}},
	{"ersion", regexp.MustCompile(`\b(?:Driver Version: *|(ROCm) version *: *)([0-9]+\.[0-9.]+)`),
		func(u *run, _ string, part []string) { u.known.Driver = strings.TrimSpace(part[1] + " " + part[2]) }},
	{"cudaDriverVersion ", regexp.MustCompile(`\bcudaDriverVersion ([0-9]+)`),
		func(u *run, _ string, part []string) {
			n := atoi(part[1])
			u.known.Driver = cmp.Or(u.known.Driver, fmt.Sprintf("CUDA %d.%d", n/1000, n%1000/10))
		}},
	// Using tuner plugin: 'Example' (2.19); TUNER/Plugin: Using tuner plugin Example (2.21); TUNER/Plugin: Using
	// Example (v5) (2.28); and what RCCL's own says since 2026
	{"uner plugin", loaded, takeTuner}, {"CSV tuner", loaded, takeTuner}, {"TUNER", loaded, takeTuner},
	{"TUNER/CsvTuner: Applied", regexp.MustCompile(`Applied config for (\w+), bytes=([0-9]+): algo=(\w+), ` +
		`proto=(\w+), channels=(-?[0-9]+)`), func(u *run, _ string, part []string) {
		coll, known := collByName[fold(part[1])]
		if n, err := strconv.ParseUint(part[2], 10, 64); known && coll >= 0 && err == nil {
			u.log.decide(&record.Decision{Call: nccl.Call{Coll: coll, Bytes: n},
				Config: nccl.Config{Cell: CellNamed(part[3], part[4]), Channels: atoi(part[5])}})
		}
	}},
	// comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8. NCCL tells its tuner the same number of nodes.
	{" nRanks ", regexp.MustCompile(` nRanks ([0-9]+)(?: nNodes ([0-9]+))?`),
		func(u *run, process string, part []string) {
			if process != "" {
				u.comm = nccl.Comm{Ranks: atoi(part[1]), Nodes: cmp.Or(atoi(part[2]), u.comm.Nodes)}
			}
		}},
	// 24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels, 2 p2p channels per peer
	{" coll channels, ", regexp.MustCompile(`\b([0-9]{1,3}) coll channels, (?:[0-9]+ collnet channels, )?` +
		`([0-9]{1,3}) nvls channels`), func(u *run, _ string, part []string) {
		u.log.most = cmp.Or(u.log.most, MostChannels{atoi(part[1]), atoi(part[2])})
	}},
	// Channel 00 : 0[0] -> 1[1] via SHM/direct
	{" via SHM/", anyLine, func(u *run, _ string, _ []string) { u.log.sharesMem = true }},
	{"ncclDdaIpcCommInit", anyLine, func(u *run, _ string, _ []string) { u.log.direct = true }},
	// Input: { ..., .func = AllReduce, ..., .nBytes = 1024, ... } (2.31)
	{"Input: {", regexp.MustCompile(`[. ]func = ([^,} ]*).*[. ]nBytes = ([0-9]+)`),
		func(u *run, process string, part []string) {
			if n, err := strconv.ParseUint(part[2], 10, 64); err == nil {
				u.log.pending[process] = logKey{operation(fold(part[1])), n, u.log.pass[process]}
			}
		}},
	// Best tuning { ..., .algo = RING, .proto = LL, ..., nChannels = 2, ... }, of the question before
	{"Best tuning {", regexp.MustCompile(`Best tuning \{(?:.*[. ]algo = ([^,} ]*).*[. ]proto = ([^,} ]*))?` +
		`(?:.*[. ]nChannels = ([0-9]+))?`), func(u *run, process string, part []string) {
		key, asked := u.log.pending[process]
		if !asked {
			return
		}
		delete(u.log.pending, process)
		ran := nccl.Config{Cell: CellNamed(part[1], part[2]), Channels: atoi(part[3])}
		if !ran.Known() {
			u.log.symmetric, ran = true, noLabel
		}
		u.log.vote(key, ran)
	}},
}

var (
	releaseLine = regexp.MustCompile(`\b([NR])CCL version *:? *([0-9]+\.[0-9]+(?:\.[0-9]+)?)`)

	anyLine = regexp.MustCompile(``)
	loaded  = regexp.MustCompile(`\bUsing tuner plugin:? +'?([^'\s]+)|\bTUNER/Plugin: Using (\S+) \(v[0-9]+\)|` +
		`\bSuccessfully loaded external tuner plugin (\S+)|TUNER_PLUGIN set to (\S+)|Using (built-in CSV tuner)|` +
		`TUNER/(CsvTuner): Applied`)
	dateTime = regexp.MustCompile(`20[0-9]{2}-[01][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-5][0-9]:[0-5][0-9]`)
	// setByLog is how NCCL's log tells a variable.
	setByLog = regexp.MustCompile(`\b([NR]CCL_[A-Z0-9_]+) set by environment to +(.*?)\.?\s*$`)
)

func releaseOf(part []string) string { return strings.TrimPrefix(part[1]+"CCL ", "NCCL ") + part[2] }

// ReadRelease reads the release from the line in which NCCL or RCCL names it, as 2.29.2 or RCCL 2.26.6; "": it is none.
func ReadRelease(line []byte) string {
	if m := releaseLine.FindStringSubmatch(string(line)); m != nil {
		return releaseOf(m)
	}
	return ""
}

func takeTuner(u *run, _ string, part []string) {
	u.known.Tuner = cmp.Or(u.known.Tuner, loadedTuner(quoted([]byte(strings.Join(part[1:], "")))))
}

// tell takes what a line that is no row tells of the run. process is that of NCCL's log; empty: it is another line.
func (u *run) tell(process string, line []byte) {
	if ran, ok := ReadRan(line); ok {
		u.log.perRank, u.log.symmetric = u.log.perRank || ran.PerRank, u.log.symmetric || ran.NoTuner
		u.log.vote(logKey{operation(ran.Operation), ran.Bytes, u.log.pass[process]}, ran.Config)
		return
	}
	u.tellTime(line)
	if bytes.Contains(line, []byte(record.Prefix)) {
		u.ours(process, line)
		return
	}
	for _, f := range facts {
		if !bytes.Contains(line, []byte(f.word)) {
			continue
		}
		if m := f.parts.FindStringSubmatch(string(line)); m != nil {
			f.take(u, process, m)
		}
	}
}

// tellTime keeps the first time that a line shows.
func (u *run) tellTime(line []byte) {
	if u.known.Time == "" && bytes.IndexByte(line, ':') > 0 {
		u.known.Time = string(dateTime.Find(line))
	}
}

// ours takes a line of our library.
func (u *run) ours(process string, line []byte) {
	name := "nccl-tuner-go"
	switch e, _ := record.ReadEvent(line); e := e.(type) {
	case *record.Start:
		name = strings.TrimSpace(name + " " + e.Library)
	case *record.Decision:
		u.log.decide(e)
	case *record.Pass:
		u.log.pass[process] = e.N
	case *record.Available:
		if u.log.offered[e.Coll] == nil {
			u.log.offered[e.Coll] = map[nccl.Cell]bool{}
		}
		for _, c := range e.Cells {
			u.log.offered[e.Coll][c] = true
		}
	}
	if len(name) > len(u.known.Tuner) || !u.known.IsOurs() {
		u.known.Tuner = name
	}
}

// decide takes what our tuner, or RCCL's own, decided. It names the channels that were asked for, if any were.
func (t *tuningLog) decide(d *record.Decision) {
	l := d.Config
	if d.By == record.ByNCCL {
		t.refused++
		l = noLabel
	} else if t.obeyed++; !l.Known() {
		l = noLabel // a row that leaves the algorithm to NCCL
	}
	c := t.call(logKey{operation(d.Coll.String()), d.Bytes, d.Pass})
	if c.decided = &l; d.Pass > 0 && d.Asks.Known() {
		c.asked, c.missing = &d.Asks, c.missing || !d.Available
	}
}

func (t *tuningLog) vote(key logKey, l nccl.Config) {
	c := t.call(key)
	c.ran[l]++
	c.total++
	if n, most := c.ran[l], c.ran[c.best]; n > most || n == most && l.Compare(c.best) < 0 {
		c.best = l
	}
}

// call is what is logged of a key, to add to.
func (t *tuningLog) call(key logKey) *logged {
	if t.calls[key] == nil {
		t.calls[key] = &logged{ran: map[nccl.Config]int{}}
	}
	return t.calls[key]
}

// at is what is logged of a key.
func (t *tuningLog) at(key logKey) logged { return *cmp.Or(t.calls[key], &logged{}) }

// refusedAll reports that our tuner decided, and never for a configuration of its own. In passes that is no fault.
func (t *tuningLog) refusedAll() bool { return t.refused > 0 && t.obeyed == 0 && len(t.pass) == 0 }

// of is the key of a row: without passes the log counts all calls of a size.
func (t *tuningLog) of(op operation, bytes uint64, pass int) logKey {
	if len(t.pass) == 0 {
		pass = 0
	}
	return logKey{op, bytes, pass}
}

// family is an algorithm and a protocol for a collective.
type family struct {
	op operation
	nccl.Cell
}

// missing is what passes asked for and NCCL had nowhere.
func (t *tuningLog) missing() map[family]bool {
	all := map[family]bool{}
	for key, c := range t.calls {
		if c.missing {
			all[family{key.op, c.asked.Cell}] = true
		}
	}
	for key, c := range t.calls {
		if c.decided != nil {
			delete(all, family{key.op, c.decided.Cell})
		}
	}
	return all
}

// byDefault reports whether our tuner left a size of a pass to NCCL.
func (t *tuningLog) byDefault(key logKey) bool {
	c := t.at(key)
	return key.pass > 0 && c.decided != nil && *c.decided == noLabel && !c.missing
}

// operation returns the only collective that the log names, or nothing.
func (t *tuningLog) operation() (op operation) {
	for key := range t.calls {
		if key.op == "" || op != "" && op != key.op {
			return ""
		}
		op = key.op
	}
	return op
}

// ran returns what NCCL's own log names for a size. The log counts the bytes of all ranks or of one, by version and
// collective; scale is from scaleOf.
func (t *tuningLog) ran(key logKey, scale uint64) (l nccl.Config, agreed, found bool) {
	key.bytes /= scale
	c := t.at(key)
	if c.total == 0 {
		key.op = ""
		c = t.at(key)
	}
	return c.best, c.ran[c.best]*10 >= c.total*9, c.total > 0
}

// scaleOf tells whether the log's bytes are the rows' (1) or a rank's part of
// them (ranks), by which of the two finds more of the sizes.
func (t *tuningLog) scaleOf(op operation, rows []row, ranks int) uint64 {
	if ranks < 2 || op != "allgather" && op != "reducescatter" {
		return 1
	}
	whole, part := 0, 0
	for i := range rows {
		key := t.of(op, rows[i].Bytes, rows[i].Pass)
		if _, _, found := t.ran(key, 1); found {
			whole++
		}
		if _, _, found := t.ran(key, uint64(ranks)); found {
			part++
		}
	}
	if part > whole || part == whole && t.perRank {
		return uint64(ranks)
	}
	return 1
}

// MostChannels are the most that a communicator has, as NCCL's log says; 0: it does not.
type MostChannels struct{ others, nvls int }

// Of returns the most for an algorithm; 0: not known.
func (m MostChannels) Of(a nccl.Algo) int {
	if nccl.CountsNVLSChannels(a) {
		return m.nvls
	}
	return m.others
}

// Cap lowers a count of channels to what the communicator has.
func (m MostChannels) Cap(c nccl.Config) nccl.Config {
	if most := m.Of(c.Algo); most > 0 {
		c.Channels = min(c.Channels, most)
	}
	return c
}

// Ran is what a line of NCCL_DEBUG_SUBSYS=TUNING tells of a call. One rank of a communicator logs it, the first.
type Ran struct {
	Operation string // as allreduce; empty: before NCCL 2.23 the log does not say
	Bytes     uint64
	PerRank   bool // the bytes of an AllGather or a ReduceScatter are those of one rank (2.24 on)
	nccl.Config
	NoTuner bool // a symmetric kernel or the copy engine: no algorithm in the tuner's sense
}

// ReadRan reads such a line.
//
//	AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}  (2.24 on)
//	AllReduce: 1024 Bytes -> Algo 1 proto 0 time 12.3                   (2.23)
//	1024 Bytes -> Algo 1 proto 0 time 12.3                              (before)
//	AllReduce [Symmetric]: 1024 Bytes -> Kernel NAME nchannels 4 nthreads 512
func ReadRan(line []byte) (r Ran, ok bool) {
	at := bytes.Index(line, []byte(" Bytes "))
	var few [7][]byte
	words := tokensOf(line[max(at, 0):], few[:])
	if at < 0 || len(words) < 3 || string(words[1]) != "->" {
		return r, false
	}
	name := bytes.TrimRight(line[:at], "0123456789")
	n, err := strconv.ParseUint(string(line[len(name):at]), 10, 64)
	name = bytes.TrimSuffix(bytes.TrimRight(name, " "), []byte(":"))
	if _, message, isLog := bytes.Cut(name, []byte("NCCL INFO")); isLog {
		name = message
	}
	name, _, special := bytes.Cut(name, []byte(" ["))
	r = Ran{Bytes: n, Config: noLabel, NoTuner: special || string(words[2]) == "Kernel"} // [Symmetric], [Copy Engine]
	word := fold(string(name[bytes.LastIndexByte(name, ' ')+1:]))
	if _, known := collByName[word]; known {
		r.Operation = word
	}
	r.PerRank = r.NoTuner
	if !r.NoTuner && len(words) > 5 && string(words[2]) == "Algo" && string(words[4]) == "proto" {
		r.Cell = CellNamed(string(words[3]), string(words[5]))
		channels, counted := bytes.CutPrefix(words[len(words)-1], []byte("channel{Lo..Hi}={"))
		low, high, _ := bytes.Cut(bytes.TrimRight(channels, "}"), []byte(".."))
		if first, last := atoi(string(low)), atoi(string(high)); counted && last >= first {
			r.PerRank, r.Channels = true, last-first+1
		}
	}
	return r, err == nil && (r.NoTuner || r.Known())
}
