package telemetry

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/metrics"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/safefile"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// An Exporter writes the metrics of a process to one file in the directory of NCCL_TUNER_METRICS,
// again and again while communicators are open, and removes it with the last. The file is
// for node_exporter's textfile collector. internal/metrics lists the metrics.
type Exporter struct {
	variable string // names the directory, for messages
	release  string // of the library
	timeouts *safefile.Timeouts
	getenv   func(string) string
	Every    time.Duration // between two writes

	mu     sync.Mutex // guards what follows; held while counts are read
	dir    string
	labels []string
	log    Log // of the first communicator
	warned bool
	comms  []*CommMetrics // open ones
	opened int            // since the process began
	stop   chan struct{}
	done   chan struct{} // closed when the goroutine that was started last has ended, or if there was none
	rows   rowTotals     // calls by row, of versions that are gone

	events changeTotals
}

const (
	metricsEvery = 15 * time.Second
	// metricsLimit bounds one operation of the directory's file system.
	metricsLimit = time.Second
)

// NewExporter returns an exporter that writes nothing yet. variable is the setting that names its directory.
func NewExporter(variable, release string, t *safefile.Timeouts, getenv func(string) string) *Exporter {
	e := &Exporter{variable: variable, release: release, timeouts: t, getenv: getenv, Every: metricsEvery,
		done: make(chan struct{})}
	e.rows = rowTotals{}
	e.events.refused, e.events.refusing = map[agree.Reason]uint64{}, map[string]bool{}
	close(e.done)
	return e
}

// CommMetrics are the metrics of one communicator: New before it decides anything, Open, then Close.
type CommMetrics struct {
	exporter *Exporter
	dir      string           // "": nobody reads metrics
	state    func() CommState // called with Exporter.mu held
	callsBy  []atomic.Uint64  // of the version in force, by decider, which C adds to; nil: nobody counts

	// Exporter.mu guards what follows.
	number int            // 1 for the first of the process
	engine *policy.Engine // of the version in force, by the numbers of whose rows calls are counted
	before decided        // by all earlier versions
	// asked is how many calls the last page told of, and lastAsked when a page first told of so many; zero: never.
	asked     uint64
	lastAsked time.Time
}

// New returns the metrics of a communicator whose settings name this directory; "" for none. callsBy is where its calls
// are counted, MaxDeciders numbers, until Close; nil: nowhere.
func (e *Exporter) New(dir string, callsBy []atomic.Uint64) *CommMetrics {
	return &CommMetrics{exporter: e, dir: dir, callsBy: callsBy}
}

// Open exports the communicator until Close. All communicators of a process go to the directory that the
// first one names. Any goroutine may call state.
func (m *CommMetrics) Open(log Log, state func() CommState) {
	if m.dir == "" {
		return
	}
	e := m.exporter
	e.mu.Lock()
	defer e.mu.Unlock()
	e.opened++
	m.number, m.state = e.opened, state
	e.comms = append(e.comms, m)
	if len(e.comms) > 1 {
		return
	}
	e.dir, e.log = m.dir, log
	e.labels = metricsLabels(e.getenv)
	e.stop = make(chan struct{})
	before, done := e.done, make(chan struct{})
	e.done = done
	go e.run(e.dir, before, e.stop, done)
}

// Close ends the export of the communicator. The last communicator's Close removes the file. Nothing runs
// after it, unless the file system hangs.
func (m *CommMetrics) Close() {
	e := m.exporter
	e.mu.Lock()
	last := false
	if i := slices.Index(e.comms, m); i >= 0 {
		m.fold() // with the mutex held, so that no scrape sees a count fall
		e.comms = slices.Delete(e.comms, i, i+1)
		last = len(e.comms) == 0
	}
	done := e.done
	if last {
		close(e.stop)
	}
	e.mu.Unlock()
	if last {
		select {
		case <-done:
		case <-time.After(3 * metricsLimit):
		}
	}
}

// run writes the file until stop is closed, then removes it. before is closed when the goroutine of earlier
// communicators has ended: both would write the same file.
func (e *Exporter) run(dir string, before, stop, done chan struct{}) {
	defer close(done)
	defer func() {
		if p := recover(); p != nil {
			e.warn("a defect in the plugin: %v; there are no more metrics", p)
		}
	}()
	<-before
	file := metricsFile{dir: dir, name: metrics.FileName(identity.Self())}
	_ = e.timeouts.Do(e.variable+" of others", metricsLimit, func() error { file.removeStale(); return nil })
	for {
		text := e.Page()
		if err := e.timeouts.Do(e.variable, metricsLimit, func() error { return file.write(text) }); err != nil {
			e.warn("%s=%s: metrics cannot be written, the job goes on without: %v", e.variable, dir,
				safefile.Reason(err))
		}
		select {
		case <-stop:
			_ = e.timeouts.Do(e.variable, metricsLimit, func() error { return os.Remove(file.path()) })
			return
		case <-time.After(e.Every):
		}
	}
}

// warn logs one warning in the life of a process: a full disk would bring one every 15 s.
func (e *Exporter) warn(format string, args ...any) {
	e.mu.Lock()
	log, warned := e.log, e.warned
	e.warned = true
	e.mu.Unlock()
	if !warned {
		log.Warnf(format, args...)
	}
}

// metricsFile is the file of one process.
type metricsFile struct{ dir, name string }

// metricsMark begins the first line, which goes on with the identity of the process.
const metricsMark = "# nccl-tuner-go "

func (f metricsFile) path() string { return filepath.Join(f.dir, f.name) }

// write puts the text in the place of the file as a whole, for all to read: node_exporter has a
// user of its own.
func (f metricsFile) write(text []byte) error {
	return safefile.Write(f.path(), fmt.Appendf(nil, "%s%s\n%s", metricsMark, identity.New(), text))
}

// removeStale removes the files of processes of this machine that were killed, also files that
// were being written. It keeps what it is not sure of.
func (f metricsFile) removeStale() {
	mine := metrics.FilePrefix + strings.ReplaceAll(identity.Self().Host, "/", "_") + "_"
	entries, _ := os.ReadDir(f.dir)
	for _, entry := range entries {
		name := strings.TrimPrefix(entry.Name(), ".")
		if !strings.HasPrefix(name, mine) || !entry.Type().IsRegular() {
			continue
		}
		path := filepath.Join(f.dir, entry.Name())
		if p, err := metricsOwner(path); err == nil && p.State() == identity.Dead {
			os.Remove(path)
		}
	}
}

// metricsOwner reads which process wrote a file.
func metricsOwner(path string) (identity.Process, error) {
	file, _, err := safefile.Open(path)
	if err != nil {
		return identity.Process{}, err
	}
	defer file.Close()
	head := make([]byte, 512)
	n, _ := file.Read(head)
	line, _, _ := strings.Cut(string(head[:n]), "\n")
	owner, ok := strings.CutPrefix(line, metricsMark)
	if !ok {
		return identity.Process{}, errors.New("this is no file of metrics")
	}
	return identity.Parse(owner)
}
