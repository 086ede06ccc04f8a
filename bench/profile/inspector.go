package profile

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/suggest"
)

// inspected is a record of NCCL's inspector (inspector_json.cc, NCCL 2.28.3 to 2.30.7 v4.0; v4.1 has the rings' losses, v4.2
// algorithm and protocol, v4.3 traces of the proxy). Only what is used is named.
type inspected struct {
	Header *struct {
		ID    string `json:"id"`
		Rank  int    `json:"rank"`
		Ranks int    `json:"n_ranks"`
		Nodes int    `json:"nnodes"`
	} `json:"header"`
	Metadata *struct {
		Version string `json:"inspector_output_format_version"`
		Host    string `json:"hostname"`
		PID     uint64 `json:"pid"`
	} `json:"metadata"`
	Coll *struct {
		Name  string `json:"coll"`
		SN    uint64 `json:"coll_sn"` // of this collective on this communicator
		Bytes uint64 `json:"coll_msg_size_bytes"`
		// Micros is the longest of the channels' times.
		Micros float32 `json:"coll_exec_time_us"`
		Source string  `json:"coll_timing_source"`
		Algo   string  `json:"coll_algo"`
		Proto  string  `json:"coll_proto"`
	} `json:"coll_perf"`
	P2P *struct {
		Name string `json:"p2p"`
	} `json:"p2p_perf"`
}

// inspectorVersions are those whose meaning is known.
var inspectorVersions = []string{"v4.0", "v4.1", "v4.2", "v4.3"}

// kernelGPU is the only timing source that is the collective's own time: the others are the host's clock, and the enqueue.
const kernelGPU = "kernel_gpu"

// mostRecord bounds one record; a verbose one of 64 channels has 20 KiB.
const mostRecord = 1 << 20

// Inspector reads the output of NCCL's inspector: one record after another, on one line each or on several. A record that
// is not complete ends a process that was killed; it is noted, and all before it counts.
func (j *Job) Inspector(name string, in io.Reader) error {
	lines := bufio.NewReaderSize(in, 1<<16)
	var text []byte
	var open braces
	line, begun := 0, 0
	for {
		part, err := lines.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return fmt.Errorf("%s: %w", name, err)
		}
		end := err == io.EOF
		if line++; len(text) == 0 {
			part, begun = bytes.TrimLeft(part, " \t\r\n"), line
		}
		text = append(text, part...)
		switch open.follow(part); {
		case open.depth <= 0:
			if err := j.record(name, begun, text); err != nil {
				return err
			}
			text, open = text[:0], braces{}
		case len(text) > mostRecord:
			return fmt.Errorf("%s:%d:1: a record of more than 1 MiB that does not end (needed: one JSON object for each call)", name, begun)
		}
		if end {
			break
		}
	}
	if len(text) > 0 {
		j.cut = append(j.cut, fmt.Sprintf("%s:%d: the last record is not complete and is left out", name, begun))
	}
	return nil
}

// braces counts those that are open.
type braces struct {
	depth          int
	quoted, escape bool
}

func (b *braces) follow(text []byte) {
	for _, c := range text {
		switch {
		case b.escape:
			b.escape = false
		case c == '"':
			b.quoted = !b.quoted
		case b.quoted:
			b.escape = c == '\\'
		case c == '{':
			b.depth++
		case c == '}':
			b.depth--
		}
	}
}

// record takes one record.
func (j *Job) record(name string, line int, text []byte) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	at := func(offset int64) string {
		before := text[:min(max(0, int(offset)-1), len(text))]
		return fmt.Sprintf("%s:%d:%d", name, line+bytes.Count(before, []byte("\n")), len(before)-bytes.LastIndexByte(before, '\n'))
	}
	var r inspected
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch err := json.Unmarshal(text, &r); {
	case errors.As(err, &syntax):
		return fmt.Errorf("%s: not JSON: %v (needed: the records of NCCL's inspector, one JSON object for each call)", at(syntax.Offset), err)
	case errors.As(err, &kind):
		return fmt.Errorf("%s: %s is a %s (needed: %s, as NCCL's inspector writes it)", at(kind.Offset), kind.Field, kind.Value, wanted(kind))
	case err != nil:
		return fmt.Errorf("%s: %w", at(1), err)
	}
	if err := j.take(name, &r); err != nil {
		return fmt.Errorf("%s: %w", at(1), err)
	}
	return nil
}

func wanted(e *json.UnmarshalTypeError) string {
	switch e.Type.Kind().String() {
	case "string":
		return "a text"
	case "struct", "ptr":
		return "an object"
	case "float32":
		return "a number"
	}
	return "a whole number, 0 or more"
}

func (j *Job) take(name string, r *inspected) error {
	h, m := r.Header, r.Metadata
	switch {
	case h == nil || m == nil:
		return errors.New("no header or no metadata (needed: both, as NCCL's inspector writes them)")
	case !slices.Contains(inspectorVersions, m.Version):
		return fmt.Errorf("inspector_output_format_version is %s (known: %s)", suggest.Quote(m.Version), strings.Join(inspectorVersions, ", "))
	case h.ID == "":
		return errors.New("header.id is empty (needed: the communicator's)")
	case h.Ranks < 1 || h.Ranks > mostRanks || h.Nodes < 1 || h.Nodes > h.Ranks:
		return fmt.Errorf("n_ranks is %d, nnodes %d (allowed: 1 rank or more, and 1 node up to as many as ranks)", h.Ranks, h.Nodes)
	case h.Rank < 0 || h.Rank >= h.Ranks:
		return fmt.Errorf("rank is %d (allowed: 0 to %d, as n_ranks is %d)", h.Rank, h.Ranks-1, h.Ranks)
	}
	comm := j.comm(h.ID)
	at := place{comm, process{m.Host, m.PID}}
	if j.ranks[at] == nil {
		j.ranks[at] = map[int]bool{}
	}
	j.ranks[at][h.Rank] = true
	switch {
	case r.P2P != nil:
		j.others[r.P2P.Name]++
		return nil
	case r.Coll == nil: // statistics, traces of the proxy
		return nil
	case h.Ranks == 1:
		j.others["collectives of a single rank"]++
		return nil
	}
	return j.collective(name, r, comm)
}

func (j *Job) collective(name string, r *inspected, comm int32) error {
	h, c := r.Header, r.Coll
	coll, err := nccl.Colls.Parse(c.Name)
	switch {
	case c.Name == "AllGatherV" || nccl.NeverAsked(c.Name):
		j.others[c.Name]++
		return nil
	case err != nil:
		return fmt.Errorf("coll: %w", err)
	case c.Micros < 0:
		return fmt.Errorf("coll_exec_time_us is %v (allowed: 0 or more)", c.Micros)
	case c.Bytes < 1 || c.Bytes > mostBytes/uint64(h.Ranks):
		return fmt.Errorf("coll_msg_size_bytes is %d (allowed: 1 to 1024T over all ranks)", c.Bytes)
	}
	key := Call{Coll: coll, Shape: Shape{h.Nodes, h.Ranks}, Bytes: c.Bytes, Algo: -1, Proto: -1}
	if coll == nccl.CollAllGather || coll == nccl.CollReduceScatter {
		key.Bytes *= uint64(h.Ranks) // the inspector counts one rank's share
	}
	if algo, ok := nccl.Algos.Named(c.Algo); ok { // others, as of symmetric kernels, are not the tuner's
		key.Algo = algo
	}
	if proto, ok := nccl.Protos.Named(c.Proto); ok {
		key.Proto = proto
	}
	entry := j.entry(key)
	j.found[entry].records++
	one := callKey{comm, entry, c.SN}
	if c.Source == kernelGPU && c.Micros > 0 {
		j.time(one, c.Micros)
	} else if j.calls[one] == nil {
		j.calls[one] = &call{}
	}
	in := seriesKey{comm, coll, h.Rank}
	s := j.series[in]
	if s == nil {
		s = &series{Shape: key.Shape, first: c.SN, last: c.SN, file: name}
		j.series[in] = s
	}
	s.first, s.last, s.records = min(s.first, c.SN), max(s.last, c.SN), s.records+1
	return nil
}
