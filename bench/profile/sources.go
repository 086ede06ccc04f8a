package profile

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
)

// mostRecorded bounds a recorder's file, which has a few MiB at most.
const mostRecorded = 64 << 20

// Recorder reads the file that the library's recorder leaves of one process.
func (j *Job) Recorder(name string, in io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(in, mostRecorded+1))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(text) > mostRecorded {
		return fmt.Errorf("%s is larger than 64 MiB (needed: a file that the recorder wrote)", name)
	}
	f, err := record.Read(name, text)
	if err != nil {
		return err
	}
	for i := range f.Comms {
		j.recordedComm(process{f.Host, uint64(f.PID)}, &f.Comms[i])
	}
	if f.Left > 0 {
		j.cut = append(j.cut,
			fmt.Sprintf("%s: %d communicators are left out: the recorder keeps the latest of a process", name, f.Left))
	}
	return nil
}

func (j *Job) recordedComm(of process, c *record.CommRecord) {
	if c.Ranks == 1 {
		j.others["collectives of a single rank"]++
		return
	}
	j.comm(c.ID, of, c.Rank)
	for _, r := range c.Calls {
		entry := j.entry(CallKind{r.Call, c.Comm, bench.CellNamed(r.Algo, r.Proto)})
		f := &j.found[entry]
		if r.Algo == "" {
			r.DecidedBy = ByNoTuner
		}
		f.records += int(r.Calls)
		if r.Calls > f.most { // of several channel counts, or deciders, the one most used
			f.most, f.channels, f.by = r.Calls, r.Channels, r.DecidedBy
		}
	}
	j.unlisted += int(c.Unlisted)
}

// inspected is a record of NCCL's inspector (inspector_json.cc, NCCL 2.28.3 to 2.30.7 v4.0; v4.1 has the rings'
// losses, v4.2 algorithm and protocol, v4.3 traces of the proxy, and header and metadata only in the record before the
// calls of a communicator). Only what is used is named.
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

// longestName is above the names of operations, in bytes.
const longestName = 64

// kernelGPU is the timing source that measures the collective itself. The others measure the host's clock and the
// enqueue.
const kernelGPU = "kernel_gpu"

// Inspector reads the output of NCCL's inspector, one record after another. An incomplete last record is what a killed
// process leaves. It becomes a note, and the records before it count.
func (j *Job) Inspector(name string, in io.Reader) error {
	records := json.NewDecoder(in)
	var last inspected // with a header
	for n := 1; ; n++ {
		var r inspected
		err := records.Decode(&r)
		at := fmt.Sprintf("%s: record %d", name, n)
		switch {
		case err == io.EOF:
			return nil
		case errors.Is(err, io.ErrUnexpectedEOF):
			j.cut = append(j.cut, at+", the last one, is not complete and is left out")
			return nil
		case errors.As(err, new(*json.SyntaxError)):
			return fmt.Errorf("%s: not JSON: %v (needed: the records of NCCL's inspector, one JSON object for "+
				"each call)", at, err)
		case errors.As(err, new(*json.UnmarshalTypeError)):
			return fmt.Errorf("%s: %w, as NCCL's inspector writes it", at, wording.JSONError(err))
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		}
		if r.Header != nil && r.Metadata != nil {
			last = r
		} else if last.Metadata != nil && last.Metadata.Version == "v4.3" && r.Header == nil && r.Metadata == nil {
			r.Header, r.Metadata = last.Header, last.Metadata
		}
		if err := j.take(name, &r); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
}

func (j *Job) take(name string, r *inspected) error {
	h, m := r.Header, r.Metadata
	switch {
	case h == nil || m == nil:
		return errors.New("no header or no metadata (needed: both, as NCCL's inspector writes them)")
	case !slices.Contains(inspectorVersions, m.Version):
		return fmt.Errorf("inspector_output_format_version is %s (known: %s)", wording.Quote(m.Version),
			strings.Join(inspectorVersions, ", "))
	case h.ID == "":
		return errors.New("header.id is empty (needed: the communicator's)")
	case h.Ranks < 1 || h.Ranks > mostRanks || h.Nodes < 1 || h.Nodes > h.Ranks:
		return fmt.Errorf("n_ranks is %d, nnodes %d (allowed: 1 rank or more, and 1 node up to as many as ranks)",
			h.Ranks, h.Nodes)
	case h.Rank < 0 || h.Rank >= h.Ranks:
		return fmt.Errorf("rank is %d (allowed: 0 to %d, as n_ranks is %d)", h.Rank, h.Ranks-1, h.Ranks)
	}
	comm := j.comm(h.ID, process{m.Host, m.PID}, h.Rank)
	switch {
	case r.P2P != nil:
		j.others[r.P2P.Name[:min(len(r.P2P.Name), longestName)]]++
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
	key := CallKind{nccl.Call{Coll: coll, Bytes: c.Bytes}, nccl.Comm{Nodes: h.Nodes, Ranks: h.Ranks},
		bench.CellNamed(c.Algo, c.Proto)}
	if coll == nccl.CollAllGather || coll == nccl.CollReduceScatter {
		key.Bytes *= uint64(h.Ranks) // the inspector counts one rank's share
	}
	entry := j.entry(key)
	j.found[entry].records++
	if c.Source != kernelGPU {
		c.Micros = 0
	}
	j.time(callKey{comm, entry, c.SN}, c.Micros)
	in := seriesKey{comm, coll, h.Rank}
	s := j.series[in]
	if s == nil {
		s = &series{Comm: key.Comm, first: c.SN, last: c.SN, file: name}
		j.series[in] = s
	}
	s.first, s.last, s.records = min(s.first, c.SN), max(s.last, c.SN), s.records+1
	return nil
}

// unnamedComm stands for the identity of communicators where the ABI has none.
const unnamedComm = "0x0"

// decisions are those of a log, by communicator.
type decisions struct {
	// comms has the communicator of a name, "": of any. The zero value: they differ, and nobody knows which decides.
	comms  map[string]nccl.Comm
	byComm map[string][]record.Decision
}

func (d *decisions) take(e record.Event) {
	switch e := e.(type) {
	case *record.Start:
		if e.Comm.Nodes < 1 || e.Comm.Ranks < e.Comm.Nodes || e.Comm.Ranks > mostRanks {
			return
		}
		for _, id := range []string{cmp.Or(e.ID, unnamedComm), ""} {
			if known, ok := d.comms[id]; ok && known != e.Comm {
				e.Comm = nccl.Comm{}
			}
			d.comms[id] = e.Comm
		}
	case *record.Decision:
		d.byComm[e.ID] = append(d.byComm[e.ID], *e)
	}
}

// decisions takes those of a log. The last one for a call is active, and one for a single call is preferred to one for
// a group of calls.
func (j *Job) decisions(of *decisions) {
	for id, all := range of.byComm {
		comm := of.comms[id]
		if comm.Nodes == 0 {
			j.unnamed += len(all)
			continue
		}
		for _, d := range all {
			key := CallKind{d.Call, comm, nccl.NoCell}
			if known, ok := j.decided[key]; !ok || d.PipeOps <= known.PipeOps {
				j.decided[key] = d
			}
		}
	}
}

// addDecisions adds to the entries who decided, unless the inspector recorded another configuration. It adds entries
// for shapes that no inspector recorded.
func (j *Job) addDecisions(p *Profile) {
	known, entries := map[CallKind]bool{}, map[CallKind]bool{}
	for _, e := range p.Entries {
		entries[e.CallKind] = true
	}
	for i := range p.Entries {
		e := &p.Entries[i]
		key := CallKind{e.Call, e.Comm, nccl.NoCell}
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
			e.Channels, e.DecidedBy = cmp.Or(e.Channels, d.Channels), d.By
		}
	}
	for key, d := range j.decided {
		if key.Bytes > 0 && !known[key] {
			p.Entries = append(p.Entries, Entry{CallKind: CallKind{key.Call, key.Comm, d.Cell}, Channels: d.Channels,
				DecidedBy: d.By})
		}
	}
	if len(j.decided) > 0 && len(j.found)+len(j.log.found) == 0 {
		p.note(1, "the library's log tells which calls a job makes and what runs them, not how often nor how long")
	}
}
