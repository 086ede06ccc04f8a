package tuner

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// RecordInfo is what NCCL tells the profiler half of a communicator.
type RecordInfo struct {
	ID                 uint64
	Rank, Ranks, Nodes int
}

// Recorded is what the profiler half has counted of a communicator, in C.
type Recorded interface {
	// Read adds what came since the last time to c's calls. It is called by one goroutine at a
	// time, and not after RecordEnd.
	Read(c *record.Comm)
}

// recordings keeps and writes what the communicators of this process did. The zero value
// records nothing yet.
type recordings struct {
	mu    sync.Mutex // guards all but writing
	open  int
	dir   string
	comms []*Recording
	left  int
	stop  chan struct{} // ends the goroutine that writes

	writing sync.Mutex
}

// A Recording is of one communicator.
type Recording struct {
	info RecordInfo
	log  Log
	data record.Comm
	from Recorded // nil: the communicator is gone

	mu      sync.Mutex // beside recordings.mu: Decide must not wait for a file
	decided map[ranKey]shapeDecision
	idle    bool // NCCL decides everything
}

// ranKey is a shape and what ran, as the recorder has it: versions of a policy decide by turns. "" is whatever NCCL takes.
type ranKey struct {
	coll        nccl.Coll
	bytes       uint64
	algo, proto string
}

// shapeDecision is who chose it, and instead of what.
type shapeDecision struct{ by, own string }

const (
	// The bounds of a process's memory and file: some 3 MB at most.
	maxRecordings = 256
	maxDecided    = 4096

	// A file is written after so long, then ever more rarely.
	firstRecord = 10 * time.Second
	lastRecord  = 10 * time.Minute
	// recordLimit bounds the wait for a file at the end of the last communicator.
	recordLimit = 2 * time.Second
)

// Record begins to record a communicator, if NCCL_TUNER_RECORD names a directory that can be
// written to. Else it returns nil.
func (p *Plugin) Record(info RecordInfo, from Recorded, log Log) *Recording {
	dir := p.getenv(EnvRecord)
	if dir == "" {
		return nil
	}
	if err := p.canRecord(dir); err != nil {
		logOnce(&p.saidNoRecord, log, func() { log.Warnf("%s=%s: %v; nothing is recorded", EnvRecord, dir, err) })
		return nil
	}
	r := &Recording{info: info, log: log, from: from, decided: map[ranKey]shapeDecision{}, data: record.Comm{
		ID: fmt.Sprintf("%#x", info.ID), Rank: info.Rank, Ranks: info.Ranks, Nodes: info.Nodes, Calls: []record.Call{},
	}}
	if !p.recordings.add(r, dir) {
		return nil
	}
	log.Infof("communicator %#x: rank %d of %d is recorded to %s", info.ID, info.Rank, info.Ranks, dir)
	return r
}

const writable = 2 // W_OK of access(2)

func (p *Plugin) canRecord(dir string) error {
	return reason(within(&p.hung, dir, recordLimit, func() error { return cmp.Or(os.MkdirAll(dir, 0o755), syscall.Access(dir, writable)) }))
}

// add takes a recording in, and starts the goroutine that writes with the first one.
func (r *recordings) add(one *Recording, dir string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.comms) == maxRecordings {
		gone := slices.IndexFunc(r.comms, func(c *Recording) bool { return c.from == nil })
		if gone < 0 {
			r.left++
			return false
		}
		r.comms = slices.Delete(r.comms, gone, gone+1)
		r.left++
	}
	r.comms = append(r.comms, one)
	r.dir = dir
	if r.open++; r.open == 1 {
		r.stop = make(chan struct{})
		go r.run(r.stop, one.log)
	}
	return true
}

// run writes the file, soon at first, then ever more rarely, until stop is closed.
func (r *recordings) run(stop chan struct{}, log Log) {
	defer func() {
		if p := recover(); p != nil {
			log.Warnf("a defect in the recorder: %v; nothing more is recorded", p)
		}
	}()
	for interval := firstRecord; ; interval = min(2*interval, lastRecord) {
		select {
		case <-stop:
			return
		case <-time.After(interval):
		}
		r.read()
		if err := r.write(stop); err != nil {
			log.Warnf("%s: %v; it is tried again", EnvRecord, err)
		}
	}
}

// write writes the one file of this process, unless stop is closed: RecordEnd then does.
func (r *recordings) write(stop chan struct{}) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	select {
	case <-stop:
		return nil
	default:
	}
	f, dir := r.file()
	return f.Write(filepath.Join(dir, fmt.Sprintf("record-%s-%d-%d.json", filepath.Base(f.Host), f.PID, ourselves().started)))
}

// read takes over what C has counted.
func (r *recordings) read() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.comms {
		c.read()
	}
}

// read is called with recordings.mu held.
func (c *Recording) read() {
	if c.from == nil {
		return
	}
	c.from.Read(&c.data)
}

// file is what is known by now, and where to put it.
func (r *recordings) file() (f *record.File, dir string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f = &record.File{Host: ourselves().Host, PID: ourselves().PID, Left: r.left}
	for _, c := range r.comms {
		one := c.data
		one.Calls = slices.Clone(one.Calls)
		for i := range one.Calls {
			c.explain(&one.Calls[i])
		}
		f.Comms = append(f.Comms, one)
	}
	return f, r.dir
}

// explain says who decided, unless something else ran.
func (c *Recording) explain(call *record.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, ok := c.decided[ranKey{call.Coll, call.Bytes, call.Algo, call.Proto}]
	if !ok {
		d, ok = c.decided[ranKey{call.Coll, call.Bytes, "", ""}]
	}
	if !ok && c.idle {
		d.by = "NCCL"
	}
	call.DecidedBy, call.Own = d.by, d.own
}

// add notes who decided a query. A nil recording notes nothing.
func (c *Recording) add(e *policy.Engine, q policy.Query, a policy.Answer) {
	if c == nil {
		return
	}
	d := shapeDecision{by: decidedBy(e, a)}
	own := ranKey{coll: q.Coll, bytes: q.Bytes}
	if cell, _ := q.Costs.Own(); cell.Known() {
		own.algo, own.proto = cell.Algo.String(), cell.Proto.String()
		d.own = cell.String()
	}
	if a.By != policy.ByNCCL && a.Algo >= 0 {
		c.note(ranKey{q.Coll, q.Bytes, a.Algo.String(), a.Proto.String()}, d)
		return
	}
	c.note(own, d)
	c.note(ranKey{coll: q.Coll, bytes: q.Bytes}, d)
}

func (c *Recording) note(ran ranKey, d shapeDecision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.decided[ran]; known || len(c.decided) < maxDecided {
		c.decided[ran] = d
	}
}

// noteIdle notes that NCCL decides everything.
func (c *Recording) noteIdle() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = true
}

// of returns the recording of a communicator that is there, or nil.
func (r *recordings) of(id uint64, rank int) *Recording {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range slices.Backward(r.comms) {
		if c.from != nil && c.info.ID == id && c.info.Rank == rank {
			return c
		}
	}
	return nil
}

// end takes over the rest of what was counted. last: no other communicator is recorded.
func (r *recordings) end(c *Recording) (last bool) {
	r.mu.Lock()
	defer r.mu.Unlock() // after a panic, too: the next communicator asks
	c.read()
	c.from = nil
	if r.open--; r.open == 0 {
		close(r.stop)
		return true
	}
	return false
}

// RecordEnd takes over the rest of what was counted, and writes the file after the last
// communicator.
func (p *Plugin) RecordEnd(c *Recording) {
	r := &p.recordings
	if !r.end(c) {
		return
	}
	if err := within(&p.hung, "the recorder's file", recordLimit, func() error { return r.write(nil) }); err != nil {
		c.log.Warnf("%s: %v; what was recorded last is lost", EnvRecord, err)
	}
}
