package profile

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// Shape is what calls have in common, whatever runs them.
type Shape struct {
	nccl.Call
	nccl.Comm
}

// startLine is what the library logs at the start of a communicator (tuner/comm.go), behind whatever NCCL and a
// launcher put before it.
var startLine = regexp.MustCompile(
	`TUNER/Go: .*?\bcommunicator(?: (0x[0-9a-f]+))?(?: "(?:[^"\\]|\\.)*")? of (\d+) ranks? on (\d+) nodes? ` +
		`\((?:NCCL [0-9.]+, )?ABI v\d+\)`)

// unnamedComm stands for the identity of communicators where the ABI has none.
const unnamedComm = "0x0"

// mostLine bounds a line of a log. The library writes none that is longer.
const mostLine = 1 << 20

// Decisions reads the library's decisions from a job's log. They tell which calls the job makes and what runs them,
// once for each shape. They do not tell how often and how long. A log without decisions is an error.
func (j *Job) Decisions(name string, in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 1<<16), mostLine)
	shapes := map[string]nccl.Comm{}
	all, unnamed := map[nccl.Comm]bool{}, map[nccl.Comm]bool{}
	byComm := map[string][]bench.LoggedDecision{}
	for n := 1; lines.Scan(); n++ {
		if m := startLine.FindStringSubmatch(lines.Text()); m != nil {
			ranks, err1 := strconv.Atoi(m[2])
			nodes, err2 := strconv.Atoi(m[3])
			if err1 != nil || err2 != nil || nodes < 1 || ranks < nodes || ranks > mostRanks {
				continue
			}
			s := nccl.Comm{Nodes: nodes, Ranks: ranks}
			if all[s] = true; m[1] == "" {
				unnamed[s] = true
			} else {
				shapes[m[1]] = s
			}
			continue
		}
		d, ok, err := bench.ParseDecision(lines.Bytes())
		if err != nil {
			return fmt.Errorf("%s:%d: a decision of the library that cannot be read: %w", name, n, err)
		}
		if ok {
			byComm[d.Comm] = append(byComm[d.Comm], d)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(byComm) == 0 {
		return fmt.Errorf("%s: no decision of the library is in it (needed: the log of a job with NCCL_DEBUG=INFO "+
			"and NCCL_TUNER_LOG=decisions, or a job profile, whose first line is %q)", name, Head+"1")
	}
	// A decision that names no communicator may belong to any. It is used if all communicators have the same shape.
	for id, alike := range map[string]map[nccl.Comm]bool{unnamedComm: unnamed, "": all} {
		if len(alike) == 1 {
			shapes[id] = slices.Collect(maps.Keys(alike))[0]
		}
	}
	for _, comm := range slices.Sorted(maps.Keys(byComm)) {
		shape, ok := shapes[comm]
		if !ok {
			j.unnamed += len(byComm[comm])
			continue
		}
		for _, d := range byComm[comm] {
			key := Shape{d.Call, shape}
			// The last choice is in force. The choice for a single call is preferred to one for a group of calls.
			if known, ok := j.decided[key]; !ok || d.PipeOps <= known.PipeOps {
				j.decided[key] = d
			}
		}
	}
	return nil
}

// addDecisions adds to the entries who decided, unless the inspector recorded another configuration. It adds entries
// for shapes that no inspector recorded.
func (j *Job) addDecisions(p *Profile) {
	known, entries := map[Shape]bool{}, map[CallKind]bool{}
	for _, e := range p.Entries {
		entries[e.CallKind] = true
	}
	for i := range p.Entries {
		e := &p.Entries[i]
		key := Shape{e.Call, e.Comm}
		d, ok := j.decided[key]
		if !ok {
			continue
		}
		known[key] = true
		if e.DecidedBy == ByNoTuner {
			continue
		}
		chosen := e.CallKind
		chosen.Cell = d.Cell
		if e.Cell == nccl.NoCell && !entries[chosen] {
			e.CallKind = chosen
		}
		if !d.Known() || e.Cell == d.Cell {
			e.Channels, e.DecidedBy = d.Channels, d.By
		}
	}
	for key, d := range j.decided {
		if key.Bytes > 0 && !known[key] {
			p.Entries = append(p.Entries, Entry{CallKind: CallKind{key.Call, key.Comm, d.Cell}, Channels: d.Channels,
				DecidedBy: d.By})
		}
	}
	if len(j.decided) > 0 && len(j.found) == 0 {
		p.note("the library's log tells which calls a job makes and what runs them, not how often nor how long")
	}
}
