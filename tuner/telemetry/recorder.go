package telemetry

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// ReadCounts brings a communicator's calls up to date with what the profiler half has counted in C. One
// goroutine at a time calls it, and none after Recording.End.
type ReadCounts func(*record.CommRecord)

// A Recorder keeps what the communicators of this process did, and writes it to one file.
type Recorder struct {
	variable string // names the directory, for messages
	timeouts *safefile.Timeouts
	refused  sync.Once // logs that nothing can be recorded

	mu    sync.Mutex // guards what follows but writing
	open  int
	dir   string
	comms []*Recording
	left  int
	stop  chan struct{} // ends the goroutine that writes

	writing sync.Mutex
}

// A Recording keeps what one communicator did.
type Recording struct {
	recorder *Recorder
	log      Log
	data     record.CommRecord // guarded by Recorder.mu, as is read
	read     ReadCounts        // nil: the communicator is gone

	mu      sync.Mutex // guards what follows; not Recorder.mu, because Decide must not wait for a file
	decided map[ranKey]shapeDecision
	idle    bool // NCCL decides everything
}

// ranKey is a call and what ran, since versions of a policy may decide by turns. "" stands for NCCL's choice.
type ranKey struct {
	nccl.Call
	algo, proto string
}

// shapeDecision is who decided, and what NCCL would have chosen.
type shapeDecision struct{ by, own string }

const (
	// The bounds of a process's memory and file: some 3 MB at most.
	maxRecordings = 256
	maxDecided    = 4096

	// The first file is written after firstRecord. Each interval is twice the one before, up to lastRecord.
	firstRecord = 10 * time.Second
	lastRecord  = 10 * time.Minute
	// recordLimit bounds the wait for a file at the end of the last communicator.
	recordLimit = 2 * time.Second
)

// NewRecorder returns a recorder that records nothing yet. variable is the setting that names its directory.
func NewRecorder(variable string, t *safefile.Timeouts) *Recorder {
	return &Recorder{variable: variable, timeouts: t}
}

// CommID is a communicator's id in a record.
func CommID(id uint64) string { return fmt.Sprintf("%#x", id) }

// Begin begins to record a communicator, which has no calls yet, to a directory. It returns nil if dir is
// empty or cannot be written to.
func (r *Recorder) Begin(dir string, comm record.CommRecord, read ReadCounts, log Log) *Recording {
	if dir == "" {
		return nil
	}
	if err := r.canWrite(dir); err != nil {
		log.Once(&r.refused, func() { log.Warnf("%s=%s: %v; nothing is recorded", r.variable, dir, err) })
		return nil
	}
	comm.Calls = []record.Call{}
	c := &Recording{recorder: r, log: log, data: comm, read: read, decided: map[ranKey]shapeDecision{}}
	if !r.add(c, dir) {
		return nil
	}
	log.Infof("communicator %s: rank %d of %d is recorded to %s", comm.ID, comm.Rank, comm.Ranks, dir)
	return c
}

const writable = 2 // W_OK of access(2)

func (r *Recorder) canWrite(dir string) error {
	return safefile.Reason(r.timeouts.Do(dir, recordLimit, func() error {
		return cmp.Or(os.MkdirAll(dir, 0o755), syscall.Access(dir, writable))
	}))
}

// add adds a recording. The first one starts the goroutine that writes.
func (r *Recorder) add(one *Recording, dir string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.comms) == maxRecordings {
		gone := slices.IndexFunc(r.comms, func(c *Recording) bool { return c.read == nil })
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
func (r *Recorder) run(stop chan struct{}, log Log) {
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
		r.update()
		if err := r.write(stop); err != nil {
			log.Warnf("%s: %v; it is tried again", r.variable, err)
		}
	}
}

// write writes the one file of this process, unless stop is closed: End then does.
func (r *Recorder) write(stop chan struct{}) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	select {
	case <-stop:
		return nil
	default:
	}
	f, dir := r.file()
	return f.Write(filepath.Join(dir, fmt.Sprintf("record-%s-%d-%d.json", filepath.Base(f.Host), f.PID,
		identity.Self().Started)))
}

// update reads what C has counted.
func (r *Recorder) update() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.comms {
		if c.read != nil {
			c.read(&c.data)
		}
	}
}

// file returns what is known by now, and where to put it.
func (r *Recorder) file() (f *record.File, dir string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f = &record.File{Host: identity.Self().Host, PID: identity.Self().PID, Left: r.left}
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

// explain notes who decided a call, unless something else ran.
func (c *Recording) explain(call *record.Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, ok := c.decided[ranKey{call.Call, call.Algo, call.Proto}]
	if !ok {
		d, ok = c.decided[ranKey{Call: call.Call}]
	}
	if !ok && c.idle {
		d.by = record.ByNCCL
	}
	call.DecidedBy, call.Own = d.by, d.own
}

// Note records who decided a query. A nil recording does nothing.
func (c *Recording) Note(e *policy.Engine, q policy.Query, a policy.Answer) {
	if c == nil {
		return
	}
	d := shapeDecision{by: decidedBy(e, a)}
	own := ranKey{Call: q.Call}
	if cell, _ := q.Costs.NCCLChoice(); cell.Known() {
		own.algo, own.proto = cell.Algo.String(), cell.Proto.String()
		d.own = cell.String()
	}
	if a.By != policy.ByNCCL && a.Algo >= 0 {
		c.note(ranKey{q.Call, a.Algo.String(), a.Proto.String()}, d)
		return
	}
	c.note(own, d)
	c.note(ranKey{Call: q.Call}, d)
}

func (c *Recording) note(ran ranKey, d shapeDecision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.decided[ran]; known || len(c.decided) < maxDecided {
		c.decided[ran] = d
	}
}

// NoteIdle notes that NCCL decides everything.
func (c *Recording) NoteIdle() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = true
}

// Of returns the recording of a communicator that is there, or nil.
func (r *Recorder) Of(id uint64, rank int) *Recording {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range slices.Backward(r.comms) {
		if c.read != nil && c.data.ID == CommID(id) && c.data.Rank == rank {
			return c
		}
	}
	return nil
}

// end reads the rest of what was counted. last reports that no other communicator is recorded.
func (r *Recorder) end(c *Recording) (last bool) {
	r.mu.Lock()
	defer r.mu.Unlock() // after a panic, too: the next communicator asks
	c.read(&c.data)
	c.read = nil
	if r.open--; r.open == 0 {
		close(r.stop)
		return true
	}
	return false
}

// End reads the rest of what was counted, and writes the file after the last communicator.
func (c *Recording) End() {
	r := c.recorder
	if !r.end(c) {
		return
	}
	if err := r.timeouts.Do("the recorder's file", recordLimit, func() error { return r.write(nil) }); err != nil {
		c.log.Warnf("%s: %v; what was recorded last is lost", r.variable, err)
	}
}
