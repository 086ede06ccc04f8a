package bench

import (
	"bytes"
	"cmp"
	"regexp"
	"strconv"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
)

// logKey identifies a call in NCCL's log.
type logKey struct {
	op    operation // empty: before NCCL 2.23 the log does not say
	bytes uint64    // of all ranks, or of one
	pass  int       // of the plan that our tuner follows, from 1; 0: it follows none, or that is the warm-up
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
	inPass         bool
}

// byDefault reports whether our tuner left a call to NCCL.
func (c *logged) byDefault() bool { return c.decided != nil && *c.decided == noLabel && !c.missing }

// family is an algorithm and a protocol for a collective.
type family struct {
	nccl.Coll
	nccl.Cell
}

// tuningLog collects what NCCL and tuners log of the calls of one run.
type tuningLog struct {
	calls map[logKey]*logged
	// pass is the one that each process is in.
	pass map[string]int
	// offers is what NCCL has for collectives, and has not, as our tuner says. It may differ from call to call.
	offers map[family]bool
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
		offers: map[family]bool{}}
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
	c.decided, c.inPass = &l, d.Pass > 0
	if d.Pass > 0 && d.Asks.Known() {
		c.asked, c.missing = &d.Asks, c.missing || !d.Available
		t.offer(d.Coll, d.Asks.Cell, d.Available)
	}
	t.offer(d.Coll, l.Cell, true)
}

// offer takes that NCCL has a cell, or has it not for one call.
func (t *tuningLog) offer(coll nccl.Coll, cell nccl.Cell, has bool) {
	t.offers[family{coll, cell}] = has || t.offers[family{coll, cell}]
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

// at is what is logged of a row. Without passes the log counts all calls of a size.
func (t *tuningLog) at(op operation, bytes uint64, pass int) *logged {
	if len(t.pass) == 0 {
		pass = 0
	}
	return cmp.Or(t.calls[logKey{op, bytes, pass}], &logged{})
}

// refusedAll reports that our tuner decided, and never for a configuration of its own. In passes that is no fault.
func (t *tuningLog) refusedAll() bool { return t.refused > 0 && t.obeyed == 0 && len(t.pass) == 0 }

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

// ran returns what NCCL's own log names for a row, and whether its lines agree.
func (t *tuningLog) ran(op operation, bytes uint64, pass int) (l nccl.Config, agreed, found bool) {
	c := t.at(op, bytes, pass)
	if c.total == 0 {
		c = t.at("", bytes, pass)
	}
	return c.best, c.ran[c.best]*10 >= c.total*9, c.total > 0
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

var releaseLine = regexp.MustCompile(`\b([NR])CCL version *:? *([0-9]+\.[0-9]+(?:\.[0-9]+)?)`)

func releaseOf(part []string) string { return strings.TrimPrefix(part[1]+"CCL ", "NCCL ") + part[2] }

// ReadRelease reads the release from the line in which NCCL or RCCL names it, as 2.29.2 or RCCL 2.26.6; "": it is none.
func ReadRelease(line []byte) string {
	if m := releaseLine.FindStringSubmatch(string(line)); m != nil {
		return releaseOf(m)
	}
	return ""
}
