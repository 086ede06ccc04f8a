package bench

import (
	"bytes"
	"iter"
	"maps"
	"regexp"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
)

// logKey identifies a call in NCCL's log.
type logKey struct {
	op    operation // empty: before NCCL 2.23 the log does not say
	bytes uint64
	pass  int // of the plan that our tuner follows, from 1; 0: it follows none, or that is the warm-up
}

// votes counts the labels that the log shows for one key: many calls, one line
// each.
type votes struct {
	of    map[nccl.Config]int
	total int
	best  nccl.Config // has most
}

// tuningLog collects the lines of NCCL_DEBUG_SUBSYS=TUNING of one run.
type tuningLog struct {
	calls map[logKey]*votes
	// decided is what our tuner asked for, by the bytes of all ranks.
	decided map[logKey]nccl.Config
	// asked is what a pass asked for. NCCL may keep its own channels, or not have it there at all: then it is missing.
	asked   map[logKey]nccl.Config
	missing map[logKey]bool
	// pass is the one that each process is in.
	pass map[string]int
	// offered is what NCCL has for collectives, as our tuner says.
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
	return tuningLog{calls: map[logKey]*votes{}, decided: map[logKey]nccl.Config{},
		asked: map[logKey]nccl.Config{}, missing: map[logKey]bool{}, pass: map[string]int{},
		offered: map[nccl.Coll]map[nccl.Cell]bool{}, pending: map[string]logKey{}}
}

// refusedAll reports that our tuner decided, and never for a configuration of its own. In passes that is no fault.
func (t *tuningLog) refusedAll() bool { return t.refused > 0 && t.obeyed == 0 && len(t.pass) == 0 }

// of is the key of a row: without passes the log counts all calls of a size.
func (t *tuningLog) of(op operation, bytes uint64, pass int) logKey {
	if len(t.pass) == 0 {
		pass = 0
	}
	return logKey{op, bytes, pass}
}

// missingCells is what passes asked for and NCCL had nowhere.
func (t *tuningLog) missingCells() map[nccl.Coll]map[nccl.Cell]bool {
	all := map[nccl.Coll]map[nccl.Cell]bool{}
	for key := range t.missing {
		coll := collByName[string(key.op)]
		if all[coll] == nil {
			all[coll] = map[nccl.Cell]bool{}
		}
		all[coll][t.asked[key].Cell] = true
	}
	for key, c := range t.decided {
		delete(all[collByName[string(key.op)]], c.Cell)
	}
	return all
}

// byDefault reports whether our tuner left a size of a pass to NCCL.
func (t *tuningLog) byDefault(key logKey) bool {
	choice, decided := t.decided[key]
	return key.pass > 0 && decided && choice == noLabel && !t.missing[key]
}

// read takes a line's message.
//
//	AllReduce: 1024 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}  (2.24 on)
//	AllReduce: 1024 Bytes -> Algo 1 proto 0 time 12.3                   (2.23)
//	1024 Bytes -> Algo 1 proto 0 time 12.3                              (before)
//	AllReduce [Symmetric]: 1024 Bytes -> Kernel NAME nchannels 4 nthreads 512
//	Input: { ..., .func = AllReduce, ..., .nBytes = 1024, ... }         (2.31)
//	Best tuning { ..., .algo = RING, .proto = LL, ..., nChannels = 2, ... }
//	Channel 00 : 0[0] -> 1[1] via SHM/direct
//	24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels, 2 p2p channels per peer
//	TUNER/Go: ...                                                       (package record)
//	TUNER/CsvTuner: Applied config for allreduce, bytes=1024: algo=tree, proto=ll, channels=8  (built into RCCL)
func (t *tuningLog) read(process string, message []byte) {
	if bytes.Contains(message, []byte(record.Prefix)) {
		switch e, _ := record.ReadEvent(message); e := e.(type) {
		case *record.Decision:
			t.decide(e)
		case *record.Pass:
			t.pass[process] = e.N
		case *record.Available:
			t.offer(e.Coll, e.Cells)
		}
		return
	}
	if bytes.Contains(message, []byte(" Bytes ")) && bytes.Contains(message, []byte("-> ")) {
		if ran, ok := ReadRan(message); ok {
			t.perRank, t.symmetric = t.perRank || ran.PerRank, t.symmetric || ran.NoTuner
			t.vote(logKey{operation(ran.Operation), ran.Bytes, t.pass[process]}, ran.Config)
		}
		return
	}
	if bytes.Contains(message, []byte("TUNER/CsvTuner: ")) {
		m := builtInLine.FindSubmatch(message)
		if m == nil {
			return
		}
		if coll, known := collByName[fold(string(m[1]))]; known && coll >= 0 {
			var d record.Decision
			d.Coll, d.Channels = coll, atoi(m[5])
			d.Bytes, _ = strconv.ParseUint(string(m[2]), 10, 64)
			d.Cell = CellNamed(string(m[3]), string(m[4]))
			t.decide(&d)
		}
		return
	}
	switch {
	case bytes.Contains(message, []byte("ncclDdaIpcCommInit")):
		t.direct = true
	case bytes.Contains(message, []byte(" via SHM/")):
		t.sharesMem = true
	case t.most == MostChannels{} && bytes.Contains(message, []byte(" coll channels, ")):
		if m := channelsLine.FindSubmatch(message); m != nil {
			t.most = MostChannels{atoi(m[1]), atoi(m[2])}
		}
	case bytes.Contains(message, []byte("Best tuning {")):
		key, ok := t.pending[process]
		if !ok {
			return
		}
		delete(t.pending, process)
		l := nccl.Config{Channels: atoi(member(message, "nChannels"))}
		l.Cell = CellNamed(string(member(message, "algo")), string(member(message, "proto")))
		if !l.Known() {
			t.symmetric, l = true, noLabel
		}
		t.vote(key, l)
	case bytes.Contains(message, []byte("Input: {")):
		n, err := strconv.ParseUint(string(member(message, "nBytes")), 10, 64)
		if err != nil {
			return
		}
		t.pending[process] = logKey{operation(fold(string(member(message, "func")))), n, t.pass[process]}
	}
}

var builtInLine = regexp.MustCompile(
	`TUNER/CsvTuner: Applied config for (\w+), bytes=([0-9]+): algo=(\w+), proto=(\w+), channels=(-?[0-9]+)`)

var channelsLine = regexp.MustCompile(
	`\b([0-9]{1,3}) coll channels, (?:[0-9]+ collnet channels, )?([0-9]{1,3}) nvls channels`)

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

// decide takes what our tuner, or RCCL's own, decided. It names the channels that were asked for, if any were.
func (t *tuningLog) decide(d *record.Decision) {
	l := d.Config
	if d.By == record.ByNCCL {
		t.refused++
		l = noLabel
	} else if t.obeyed++; !l.Known() {
		l = noLabel // a row that leaves the algorithm to NCCL
	}
	key := logKey{operation(d.Coll.String()), d.Bytes, d.Pass}
	if t.decided[key] = l; d.Pass > 0 && d.Asks.Known() {
		if t.asked[key] = d.Asks; !d.Available {
			t.missing[key] = true
		}
	}
}

// offer takes what NCCL has for a collective. It may differ from call to call.
func (t *tuningLog) offer(coll nccl.Coll, cells []nccl.Cell) {
	if t.offered[coll] == nil {
		t.offered[coll] = map[nccl.Cell]bool{}
	}
	for _, c := range cells {
		t.offered[coll][c] = true
	}
}

// Ran is what a line of NCCL_DEBUG_SUBSYS=TUNING tells of a call. One rank of a communicator logs it, the first.
type Ran struct {
	Operation string // as allreduce; empty: before NCCL 2.23 the log does not say
	Bytes     uint64
	PerRank   bool // the bytes of an AllGather or a ReduceScatter are those of one rank (2.24 on)
	nccl.Config
	NoTuner bool // a symmetric kernel or the copy engine: no algorithm in the tuner's sense
}

// ReadRan reads such a line's message.
func ReadRan(message []byte) (r Ran, ok bool) {
	at := bytes.Index(message, []byte(" Bytes "))
	if at <= 0 || !bytes.Contains(message[at:], []byte("-> ")) {
		return r, false
	}
	name := bytes.TrimRight(message[:at], "0123456789")
	n, err := strconv.ParseUint(string(message[len(name):at]), 10, 64)
	if err != nil {
		return r, false
	}
	r = Ran{Bytes: n, Config: noLabel}
	name = bytes.TrimSuffix(bytes.TrimSpace(name), []byte(":"))
	if of, _, other := bytes.Cut(name, []byte(" [")); other && bytes.HasSuffix(name, []byte("]")) {
		name, r.NoTuner = of, true // [Symmetric], [Copy Engine]
	}
	if i := bytes.LastIndexByte(name, ' '); i >= 0 {
		name = name[i+1:]
	}
	if op := fold(string(name)); op != "" {
		if _, known := collByName[op]; known {
			r.Operation = op
		}
	}
	var tokens [24][]byte
	words := tokensOf(message[at:], tokens[:])
	for i := 0; i+1 < len(words); i++ {
		switch string(words[i]) {
		case "Algo":
			r.Algo, _ = parseAlgo(string(words[i+1]))
		case "proto":
			r.Proto, _ = parseProto(string(words[i+1]))
		case "Kernel":
			r.NoTuner = true
		}
	}
	if i := bytes.Index(message, []byte("channel{Lo..Hi}={")); i > 0 {
		r.PerRank = true
		low, high, _ := bytes.Cut(message[i+len("channel{Lo..Hi}={"):], []byte(".."))
		high, _, _ = bytes.Cut(high, []byte("}"))
		if a, b := atoi(low), atoi(high); b >= a {
			r.Channels = b - a + 1
		}
	}
	if r.NoTuner {
		r.PerRank, r.Config = true, noLabel
	}
	return r, r.NoTuner || r.Known()
}

func (t *tuningLog) vote(key logKey, l nccl.Config) {
	v := t.calls[key]
	if v == nil {
		v = &votes{of: map[nccl.Config]int{}}
		t.calls[key] = v
	}
	v.of[l]++
	v.total++
	if n, most := v.of[l], v.of[v.best]; n > most || n == most && l.Compare(v.best) < 0 {
		v.best = l
	}
}

// operation returns the only collective that the log names, or nothing.
func (t *tuningLog) operation() (op operation) {
	for _, keys := range []iter.Seq[logKey]{maps.Keys(t.calls), maps.Keys(t.decided)} {
		for key := range keys {
			if key.op == "" || op != "" && op != key.op {
				return ""
			}
			op = key.op
		}
	}
	return op
}

// ran returns what NCCL's own log names for a size. The log counts the bytes of all ranks or of one, by version and
// collective; scale is from scaleOf.
func (t *tuningLog) ran(key logKey, scale uint64) (l nccl.Config, agreed, found bool) {
	key.bytes /= scale
	v := t.calls[key]
	if v == nil {
		key.op = ""
		v = t.calls[key]
	}
	if v == nil {
		return l, true, false
	}
	return v.best, v.of[v.best]*10 >= v.total*9, true
}

// member returns the value of "name = value" in a record of the log.
func member(message []byte, name string) []byte {
	for _, before := range []string{".", " "} {
		if _, value, ok := bytes.Cut(message, []byte(before+name+" = ")); ok {
			if end := bytes.IndexAny(value, ", }"); end >= 0 {
				value = value[:end]
			}
			return value
		}
	}
	return nil
}
