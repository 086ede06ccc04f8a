package profile

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// decisionKey is a shape of calls as the library logs it.
type decisionKey struct {
	nccl.Call
	nccl.Comm
}

type decision struct {
	nccl.Config // NoCell: NCCL's own choice, which the log does not name
	by          string
	pipeOps     int
}

// What the library logs with NCCL_TUNER_LOG=decisions, behind whatever NCCL and a launcher put before it: the start of a
// communicator (tuner/comm.go) and a decision (tuner/decisionlog.go).
var (
	startLine    = regexp.MustCompile(`TUNER/Go: .*?\bcommunicator(?: (0x[0-9a-f]+))? of (\d+) ranks? on (\d+) nodes? \(ABI v\d+\)`)
	decisionLine = regexp.MustCompile(`TUNER/Go: communicator (0x[0-9a-f]+): (\w+) (\w+), (\d+) pipelined: (.*), decided by (.*?)\s*$`)
	choiceText   = regexp.MustCompile(`^(?:NCCL's choice|([A-Za-z_]+)/([A-Za-z0-9]+))(?:, (\d+) channels?)?(?:,| instead |$)`)
)

// unnamedComm is the identity of communicators of ABIs that tell none.
const unnamedComm = "0x0"

// mostLine bounds a line of a log; what is longer is no line of the library.
const mostLine = 1 << 20

// Decisions reads the library's decisions of a job's log. They tell which calls the job makes and what runs them, once
// for each shape, and not how often or how long. A log without any is an error.
func (j *Job) Decisions(name string, in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<16), mostLine)
	shapes := map[string]nccl.Comm{}
	unnamed := map[nccl.Comm]bool{}
	type late struct {
		key decisionKey
		decision
	}
	byComm := map[string][]late{}
	for n := 1; lines.Scan(); n++ {
		if m := startLine.FindStringSubmatch(lines.Text()); m != nil {
			ranks, err1 := strconv.Atoi(m[2])
			nodes, err2 := strconv.Atoi(m[3])
			switch s := (nccl.Comm{Nodes: nodes, Ranks: ranks}); {
			case err1 != nil || err2 != nil || nodes < 1 || ranks < nodes || ranks > mostRanks:
			case m[1] == "":
				unnamed[s] = true
			default:
				shapes[m[1]] = s
			}
			continue
		}
		m := decisionLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		l, err := parseDecision(m)
		if err != nil {
			return fmt.Errorf("%s:%d: a decision of the library that cannot be read: %w", name, n, err)
		}
		byComm[m[1]] = append(byComm[m[1]], late{decisionKey{Call: nccl.Call{Coll: l.coll, Bytes: l.bytes}}, l.decision})
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(byComm) == 0 {
		return fmt.Errorf("%s: no decision of the library is in it (needed: the log of a job with NCCL_DEBUG=INFO and NCCL_TUNER_LOG=decisions, or a job profile, whose first line is %q)", name, Head+"1")
	}
	if len(unnamed) == 1 { // all that have no identity are alike
		for s := range unnamed {
			shapes[unnamedComm] = s
		}
	}
	for _, comm := range slices.Sorted(maps.Keys(byComm)) {
		shape, ok := shapes[comm]
		if !ok {
			j.unnamed += len(byComm[comm])
			continue
		}
		for _, l := range byComm[comm] {
			l.key.Comm = shape
			// Of several choices the last is in force. A call by itself counts before those of groups.
			if known, ok := j.decided[l.key]; !ok || l.pipeOps <= known.pipeOps {
				j.decided[l.key] = l.decision
			}
		}
	}
	return nil
}

type logged struct {
	coll  nccl.Coll
	bytes uint64
	decision
}

func parseDecision(m []string) (l logged, err error) {
	if l.coll, err = nccl.Colls.Parse(m[2]); err != nil {
		return l, err
	}
	if l.bytes, err = nccl.ParseBytes(m[3]); err != nil {
		return l, err
	}
	if l.pipeOps, err = strconv.Atoi(m[4]); err != nil {
		return l, err
	}
	c := choiceText.FindStringSubmatch(m[5])
	if c == nil {
		return l, fmt.Errorf("%q is no choice (needed: ALGORITHM/PROTOCOL or NCCL's choice)", m[5])
	}
	l.Algo, l.Proto, l.by = -1, -1, m[6]
	if c[1] != "" {
		if l.Algo, err = nccl.Algos.Parse(c[1]); err != nil {
			return l, err
		}
		if l.Proto, err = nccl.Protos.Parse(c[2]); err != nil {
			return l, err
		}
	}
	if c[3] != "" {
		if l.Channels, err = strconv.Atoi(c[3]); err != nil {
			return l, err
		}
	}
	return l, nil
}

// addDecisions says of entries who decided what, where the inspector does not contradict that, and adds the shapes that
// no inspector has recorded.
func (j *Job) addDecisions(p *Profile) {
	known, entries := map[decisionKey]bool{}, map[Key]bool{}
	for _, e := range p.Entries {
		entries[e.Key] = true
	}
	for i := range p.Entries {
		e := &p.Entries[i]
		key := decisionKey{Call: e.Call, Comm: e.Comm}
		d, ok := j.decided[key]
		if !ok {
			continue
		}
		known[key] = true
		chosen := e.Key
		chosen.Algo, chosen.Proto = d.Algo, d.Proto
		if e.Algo < 0 && e.Proto < 0 && !entries[chosen] {
			e.Key = chosen
		}
		if d.Algo < 0 || e.Algo == d.Algo && e.Proto == d.Proto {
			e.Channels, e.DecidedBy = d.Channels, d.by
		}
	}
	for key, d := range j.decided {
		if key.Bytes > 0 && !known[key] {
			p.Entries = append(p.Entries, Entry{Key: Key{Call: key.Call, Comm: key.Comm, Cell: nccl.Cell{Algo: d.Algo, Proto: d.Proto}}, Channels: d.Channels, DecidedBy: d.by})
		}
	}
	if len(j.decided) > 0 && len(j.found) == 0 {
		p.note("the library's log tells which calls a job makes and what runs them, not how often nor how long")
	}
}
