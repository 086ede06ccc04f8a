package telemetry

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

// Bounds of what one process writes. Of 1000 processes, each with 10 communicators and 10 000
// rows, a Prometheus would have to keep 10^8 series if each row of each communicator were one.
const (
	maxMetricsComms = 64 // the first that are open; others count in totals only
	maxMetricsRows  = 50 // the first that decide calls; others are one row "other"
	maxUnusedRows   = 20 // named
)

// CommState is what the metrics show of a communicator at a moment.
type CommState struct {
	ID uint64 // 0: not told
	nccl.Comm

	Engine  *policy.Engine // of the version in force; nil: NCCL decides everything
	Version string         // its meaning
	Idle    bool           // nothing will ever be decided, and no call is counted

	Silent       string         // why nothing but NCCL can decide; "" where something can
	Unchangeable string         // why no edit reaches the communicator; "" where edits do
	Pending      bool           // an edit is known that is not in force yet
	Finding      *trial.Finding // of its comparison by now; nil: none
}

// rowTotals is what the rows of all versions have decided in the process.
type rowTotals struct {
	hits  map[string]uint64       // by retired versions, by name, at most maxMetricsRows and otherRows
	fired map[string]map[int]bool // by a version's meaning, the indexes of rules that have decided a call
}

// otherRows is the name of all rows together that have none.
const otherRows = "other"

// maxFired bounds how many versions' rows are remembered.
const maxFired = 8

// add adds to hits, a copy of t.hits or itself, what a version has decided. A row keeps its name,
// so that no counter ever falls.
func (t *rowTotals) add(hits map[string]uint64, c *Counts, total *decided) {
	fired := t.fired[c.meaning]
	if fired == nil {
		fired = map[int]bool{}
		t.fired[c.meaning] = fired
	}
	total.add(c.hits, func(rule int, n uint64) {
		fired[rule] = true
		name := otherRows
		if rule != noRule {
			name = rowName(c.engine.Policy, rule)
		}
		if _, named := t.hits[name]; !named {
			if len(t.hits) >= maxMetricsRows {
				name = otherRows
			}
			t.hits[name] += 0 // the name is taken
		}
		hits[name] += n
	})
}

func rowName(p *policy.Policy, rule int) string {
	return fmt.Sprintf("%s:%d", p.File, p.Rules[rule].Line)
}

// follow makes the counts of a version count.
func (m *CommMetrics) follow(c *Counts) {
	m.exporter.mu.Lock()
	defer m.exporter.mu.Unlock()
	m.counting = append(m.counting, c)
}

// fold keeps the counts of a version before they are freed.
func (m *CommMetrics) fold(c *Counts) {
	m.exporter.mu.Lock()
	defer m.exporter.mu.Unlock()
	m.exporter.keep(c)
}

// keep is fold with the mutex held.
func (e *Exporter) keep(c *Counts) {
	m := c.comm
	i := slices.Index(m.counting, c)
	if i < 0 {
		return // nobody reads them, or it was done when the communicator was closed
	}
	m.counting = append(m.counting[:i:i], m.counting[i+1:]...)
	e.rows.add(e.rows.hits, c, &m.before)
}

// changeTotals counts changes in all communicators. It has a mutex of its own, held for moments,
// since NCCL's thread takes it at a change.
type changeTotals struct {
	mu        sync.Mutex
	committed uint64
	refused   map[agree.Reason]uint64
	took      [len(changeBounds) + 1]uint64
	tookSum   time.Duration
	badFiles  uint64
}

// changeBounds are the upper bounds of the histogram, in seconds.
var changeBounds = [...]float64{0.5, 1, 2, 5, 10, 30, 60, 300}

// Committed implements agree.Observer.
func (e *Exporter) Committed(took time.Duration) {
	t := &e.events
	t.mu.Lock()
	defer t.mu.Unlock()
	t.committed++
	if took > 0 {
		i, _ := slices.BinarySearch(changeBounds[:], took.Seconds())
		t.took[i]++
		t.tookSum += took
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

// FileRefused notes that something was wrong with the policy or the model.
func (e *Exporter) FileRefused() {
	e.events.mu.Lock()
	defer e.events.mu.Unlock()
	e.events.badFiles++
}

// Page is the text of all metrics.
func (e *Exporter) Page() []byte {
	e.mu.Lock()
	labels := e.labels
	e.mu.Unlock()
	p := metrics.NewPage(metrics.Library, labels...)
	p.Add(metrics.Info, 1, e.release)
	p.Add(metrics.Updated, float64(time.Now().UnixMilli())/1000)
	e.addCounts(p)
	e.events.addTo(p)
	return p.Text()
}

func (t *changeTotals) addTo(p *metrics.Page) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p.Add(metrics.Errors, float64(t.badFiles))
	p.Add(metrics.Changes, float64(t.committed), "committed", "")
	for _, why := range append(slices.Clone(agree.Reasons), "other") {
		// Zeros, too: Prometheus sees no increase where a counter begins with 1.
		p.Add(metrics.Changes, float64(t.refused[why]), "refused", string(why))
	}
	p.AddHistogram(metrics.ChangeTime, changeBounds[:], t.took[:], t.tookSum.Seconds())
}

// addCounts adds what is known of communicators and rows.
func (e *Exporter) addCounts(p *metrics.Page) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p.Add(metrics.Communicators, float64(len(e.comms)))
	inForce := map[string]*policy.Policy{}
	hits := maps.Clone(e.rows.hits)
	for i, m := range e.comms {
		total := m.before
		for _, c := range m.counting {
			e.rows.add(hits, c, &total)
		}
		s := m.state()
		if s.Engine != nil && s.Engine.Policy != nil {
			inForce[s.Version] = s.Engine.Policy
		}
		if i < maxMetricsComms {
			s.addTo(p, m.number, total)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(hits)) {
		p.Add(metrics.RowHits, float64(hits[name]), name)
	}
	for _, meaning := range slices.Sorted(maps.Keys(inForce)) {
		e.rows.addUnused(p, meaning, inForce[meaning])
	}
	for meaning := range e.rows.fired {
		if len(e.rows.fired) > maxFired && inForce[meaning] == nil {
			delete(e.rows.fired, meaning)
		}
	}
}

func (t *rowTotals) addUnused(p *metrics.Page, meaning string, rows *policy.Policy) {
	version, unused := shortVersion(meaning), 0
	for rule := range rows.Rules {
		if t.fired[meaning][rule] {
			continue
		}
		if unused++; unused <= maxUnusedRows {
			p.Add(metrics.RowUnused, 1, rowName(rows, rule), version)
		}
	}
	p.Add(metrics.Rows, float64(len(rows.Rules)), version)
	p.Add(metrics.RowsUnused, float64(unused), version)
}

// shortVersion is a version as the log and tunefit status name it.
func shortVersion(meaning string) string { return fmt.Sprintf("%.12s", meaning) }

// addTo adds what is known of one communicator. total is what all its versions have decided.
func (s *CommState) addTo(p *metrics.Page, number int, total decided) {
	id := ""
	if s.ID != 0 {
		id = fmt.Sprintf("%#x", s.ID)
	}
	with := func(values ...string) []string {
		return append([]string{strconv.Itoa(number), id, strconv.Itoa(s.Nodes), strconv.Itoa(s.Ranks)}, values...)
	}
	rows, costs := "", ""
	if s.Engine != nil && s.Engine.Policy != nil {
		rows = s.Engine.Policy.File
	}
	if s.Engine != nil && s.Engine.Model != nil {
		costs = s.Engine.Model.Name
	}
	p.Add(metrics.Version, 1, with(shortVersion(s.Version), rows, costs)...)
	if !s.Idle {
		p.Add(metrics.Calls, float64(total.rows+total.model+total.nccl), with()...)
		p.Add(metrics.Hits, float64(total.rows), with("row")...)
		p.Add(metrics.Hits, float64(total.model), with("model")...)
		p.Add(metrics.Hits, float64(total.nccl), with("nccl")...)
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
	pending := 0.
	if s.Pending {
		pending = 1
	}
	p.Add(metrics.Pending, pending, with()...)
}

// metricsLabels are names and values of the labels that all metrics of the process have. pid is
// what no two processes of a machine share: node_exporter drops all files where two samples have
// the same labels.
func metricsLabels(getenv func(string) string) []string {
	rank := ""
	for _, name := range []string{"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"} {
		rank = cmp.Or(rank, getenv(name))
	}
	return []string{"slurm_job_id", cmp.Or(getenv("SLURM_JOB_ID"), "unknown"), "node", identity.Self().Host, "pid",
		identity.Self().Unique(), "rank", rank}
}
