package telemetry

// The page of metrics: one text for all communicators of the process, in the format of Prometheus. internal/metrics has
// the names. An Exporter writes it to a file every 15 s.

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/agree"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/identity"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/metrics"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/trial"
)

// Bounds of what one process writes. With a series for each row of each communicator, 1000 processes with
// 10 communicators and 10 000 rows would be 10^8 series for Prometheus.
const (
	maxMetricsComms = 64 // the first open ones; the others count in totals only
	maxMetricsRows  = 50 // the first that decide calls; the others are one row "other"
)

// CommState is what the metrics show of a communicator at a moment.
type CommState struct {
	ID uint64 // 0: not told
	nccl.Comm

	Engine       *policy.Engine // of the version in force; nil: NCCL decides everything
	Version      string         // its meaning
	NeverDecides bool           // nothing will ever be decided, and no call is counted

	Silent       string            // why nothing but NCCL can decide; "" where something can
	Unchangeable string            // why no edit reaches the communicator; "" where edits do
	Pending      bool              // an edit is known that is not in force yet
	Finding      *trial.Conclusion // of its comparison by now; nil: none
}

// rowTotals counts the calls that the rows of retired versions have decided in the process. It has at most
// maxMetricsRows names and otherRows.
type rowTotals map[string]uint64

// otherRows names all rows together that have no name of their own.
const otherRows = "other"

// add adds to byRow, a copy of t or t itself, and to total what a communicator's version has decided by now. A row
// keeps its name, so that no counter ever falls. Calls may go on meanwhile.
func (t rowTotals) add(byRow rowTotals, m *CommMetrics, total *decided) {
	for i := range m.counted() {
		n := m.callsBy[i].Load()
		name := otherRows
		switch {
		case n == 0:
			continue
		case i == byNCCL:
			total.nccl += n
			continue
		case i == byModel:
			total.model += n
			continue
		case i >= firstRow:
			name = m.engine.Policy.Place(i - firstRow)
		}
		total.rows += n
		if _, named := t[name]; !named {
			if len(t) >= maxMetricsRows {
				name = otherRows
			}
			t[name] += 0 // the name is taken
		}
		byRow[name] += n
	}
}

// changeTotals counts changes in all communicators. It has a mutex of its own, which is held for moments only,
// because NCCL's thread takes it at a change.
type changeTotals struct {
	mu        sync.Mutex
	committed uint64
	refused   map[agree.Reason]uint64
	timed     uint64        // changes whose time is known
	took      time.Duration // by all of these
	badFiles  uint64
	refusing  map[string]bool // by the names of files: those that were refused when they were read last
}

// Committed implements agree.Observer.
func (e *Exporter) Committed(took time.Duration) {
	t := &e.events
	t.mu.Lock()
	defer t.mu.Unlock()
	t.committed++
	if took > 0 {
		t.timed++
		t.took += took
	}
}

// Aborted implements agree.Observer.
func (e *Exporter) Aborted(why agree.Reason) {
	e.events.mu.Lock()
	defer e.events.mu.Unlock()
	if !slices.Contains(agree.Reasons, why) { // a newer release's
		why = "other"
	}
	e.events.refused[why]++
}

// FilesRead notes that a policy and a model were read, and whether something was wrong with them.
func (e *Exporter) FilesRead(names string, refused bool) {
	e.events.mu.Lock()
	defer e.events.mu.Unlock()
	if !refused {
		delete(e.events.refusing, names)
		return
	}
	e.events.badFiles++
	e.events.refusing[names] = true
}

// Page returns the text of all metrics.
func (e *Exporter) Page() []byte {
	e.mu.Lock()
	labels := e.labels
	e.mu.Unlock()
	p := metrics.NewPage(metrics.Library, labels...)
	p.Add(metrics.Info, 1, e.release)
	p.Add(metrics.Updated, timestamp(time.Now()))
	e.addCounts(p)
	e.events.addTo(p)
	return p.Text()
}

func (t *changeTotals) addTo(p *metrics.Page) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.Add(metrics.Errors, float64(t.badFiles))
	p.AddIf(metrics.Refused, len(t.refusing) > 0)
	p.Add(metrics.Changes, float64(t.committed), "committed", "")
	for _, why := range append(slices.Clone(agree.Reasons), "other") {
		// Zeros, too: Prometheus sees no increase where a counter begins with 1.
		p.Add(metrics.Changes, float64(t.refused[why]), "refused", string(why))
	}
	p.AddSummary(metrics.ChangeTime, t.timed, t.took.Seconds())
}

// addCounts adds what is known of communicators and rows.
func (e *Exporter) addCounts(p *metrics.Page) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p.Add(metrics.Communicators, float64(len(e.comms)))
	byRow := maps.Clone(e.rows)
	for i, m := range e.comms {
		total := m.before
		e.rows.add(byRow, m, &total)
		if n := total.calls(); n != m.asked {
			m.asked, m.lastAsked = n, time.Now()
		}
		s := m.state()
		if i < maxMetricsComms {
			s.addTo(p, m, total)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byRow)) {
		p.Add(metrics.CallsByRow, float64(byRow[name]), name)
	}
}

// shortVersion is a version as the log and tunefit status name it.
func shortVersion(meaning string) string { return fmt.Sprintf("%.12s", meaning) }

// timestamp is a time as Prometheus has it; 0: never.
func timestamp(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

// addTo adds what is known of one communicator. total is what all its versions have decided.
func (s *CommState) addTo(p *metrics.Page, m *CommMetrics, total decided) {
	id := ""
	if s.ID != 0 {
		id = fmt.Sprintf("%#x", s.ID)
	}
	with := func(values ...string) []string {
		return append([]string{strconv.Itoa(m.number), id, strconv.Itoa(s.Nodes), strconv.Itoa(s.Ranks)}, values...)
	}
	rows, costs := "", ""
	if s.Engine != nil && s.Engine.Policy != nil {
		rows = s.Engine.Policy.File
	}
	if s.Engine != nil && s.Engine.Model != nil {
		costs = s.Engine.Model.Name
	}
	p.Add(metrics.Version, 1, with(shortVersion(s.Version), rows, costs)...)
	if !s.NeverDecides {
		p.Add(metrics.Calls, float64(total.calls()), with()...)
		p.Add(metrics.CallsByDecider, float64(total.rows), with("row")...)
		p.Add(metrics.CallsByDecider, float64(total.model), with("model")...)
		p.Add(metrics.CallsByDecider, float64(total.nccl), with("nccl")...)
		p.Add(metrics.LastCall, timestamp(m.lastAsked), with()...)
	}
	if f := s.Finding; f != nil {
		p.Add(metrics.StepPairs, float64(f.Pairs), with(string(f.State))...)
		for bound, relative := range map[string]float64{"mean": f.Mean, "low": f.Low, "high": f.High} {
			if f.Known() {
				p.Add(metrics.StepTime, 1+relative,
					with(shortVersion(f.A.Version), shortVersion(f.B.Version), bound)...)
			}
		}
	}
	if s.Silent != "" {
		p.Add(metrics.Silent, 1, with(s.Silent)...)
	}
	if s.Unchangeable != "" {
		p.Add(metrics.Unchangeable, 1, with(s.Unchangeable)...)
		return
	}
	p.AddIf(metrics.Pending, s.Pending, with()...)
}

// metricsLabels returns names and values of the labels that all metrics of the process have. No two processes
// of a machine share pid. If two samples had the same labels, node_exporter would drop all files.
func metricsLabels(getenv func(string) string) []string {
	rank := ""
	for _, name := range []string{"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"} {
		rank = cmp.Or(rank, getenv(name))
	}
	return []string{"slurm_job_id", cmp.Or(getenv("SLURM_JOB_ID"), "unknown"), "node", identity.Self().Host, "pid",
		identity.Self().Unique(), "rank", rank}
}
