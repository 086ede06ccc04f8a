package tuner

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
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// Bounds of what one process writes. Of 1000 processes, each with 10 communicators and 10 000
// rows, a Prometheus would have to keep 10^8 series if each row of each communicator were one.
const (
	maxMetricsComms = 64 // the first that are open; others count in totals only
	maxMetricsRows  = 50 // the first that decide calls; others are one row "other"
	maxUnusedRows   = 20 // named
)

// commMetrics is what the exporter keeps of a communicator. exporter.mu guards it.
type commMetrics struct {
	number  int       // 1 for the first of the process
	dropped *snapshot // of a communicator that nothing will ever be decided for
	// counting are the versions that may count: the one in force, one that is staged,
	// and such as have just been replaced.
	counting []*snapshot
	before   decided // by all others
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
func (t *rowTotals) add(hits map[string]uint64, s *snapshot, total *decided) {
	fired := t.fired[s.Meaning()]
	if fired == nil {
		fired = map[int]bool{}
		t.fired[s.Meaning()] = fired
	}
	total.add(s.hits, func(rule int, n uint64) {
		fired[rule] = true
		name := otherRows
		if rule != noRule {
			name = rowName(s.engine.Policy, rule)
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
func (e *exporter) follow(s *snapshot) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.comm.metrics.counting = append(s.comm.metrics.counting, s)
}

// fold keeps the counts of a version before they are freed.
func (e *exporter) fold(s *snapshot) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.keep(s)
}

// keep is fold with the mutex held.
func (e *exporter) keep(s *snapshot) {
	c := &s.comm.metrics
	i := slices.Index(c.counting, s)
	if i < 0 {
		return // nobody reads them, or it was done when the communicator was closed
	}
	c.counting = append(c.counting[:i:i], c.counting[i+1:]...)
	e.rows.add(e.rows.hits, s, &c.before)
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
func (e *exporter) Committed(took time.Duration) {
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
func (e *exporter) Aborted(why agree.Reason) {
	e.events.mu.Lock()
	defer e.events.mu.Unlock()
	if !slices.Contains(agree.Reasons, why) { // a newer release's
		why = "other"
	}
	e.events.refused[why]++
}

// fileRefused notes that something was wrong with the policy or the model.
func (e *exporter) fileRefused() {
	e.events.mu.Lock()
	defer e.events.mu.Unlock()
	e.events.badFiles++
}

// page is the text of all metrics.
func (e *exporter) page() []byte {
	e.mu.Lock()
	labels := e.labels
	e.mu.Unlock()
	p := metrics.NewPage(metrics.Library, labels...)
	p.Add(metrics.Info, 1, Release)
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
func (e *exporter) addCounts(p *metrics.Page) {
	e.mu.Lock()
	defer e.mu.Unlock()
	p.Add(metrics.Communicators, float64(len(e.comms)))
	inForce := map[string]*policy.Policy{}
	hits := maps.Clone(e.rows.hits)
	for i, c := range e.comms {
		total := c.metrics.before
		for _, s := range c.metrics.counting {
			e.rows.add(hits, s, &total)
		}
		s := c.inForce()
		if s.engine != nil && s.engine.Policy != nil {
			inForce[s.Meaning()] = s.engine.Policy
		}
		if i < maxMetricsComms {
			c.addMetrics(p, s, total)
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

// inForce returns the version in force, or the one that was dropped as good for nothing.
func (c *Comm) inForce() *snapshot {
	switch {
	case c.member != nil:
		return c.member.Snapshot().(*snapshot)
	case c.current != nil:
		return c.current
	}
	return c.metrics.dropped
}

// addMetrics adds what is known of one communicator. s is in force, total what all its versions
// have decided.
func (c *Comm) addMetrics(p *metrics.Page, s *snapshot, total decided) {
	id := ""
	if c.info.ID != 0 {
		id = fmt.Sprintf("%#x", c.info.ID)
	}
	with := func(values ...string) []string {
		return append([]string{strconv.Itoa(c.metrics.number), id, strconv.Itoa(c.info.Nodes), strconv.Itoa(c.info.Ranks)}, values...)
	}
	rows, costs := "", ""
	if s.engine != nil && s.engine.Policy != nil {
		rows = s.engine.Policy.File
	}
	if s.engine != nil && s.engine.Model != nil {
		costs = s.engine.Model.Name
	}
	p.Add(metrics.Version, 1, with(shortVersion(s.Meaning()), rows, costs)...)
	if s != c.metrics.dropped {
		p.Add(metrics.Calls, float64(total.rows+total.model+total.nccl), with()...)
		p.Add(metrics.Hits, float64(total.rows), with("row")...)
		p.Add(metrics.Hits, float64(total.model), with("model")...)
		p.Add(metrics.Hits, float64(total.nccl), with("nccl")...)
	}
	if found := c.found.Load(); found != nil {
		p.Add(metrics.StepPairs, float64(found.Pairs), with(string(found.State))...)
		for bound, relative := range map[string]float64{"mean": found.Mean, "low": found.Low, "high": found.High} {
			if found.Known() {
				p.Add(metrics.StepTime, 1+relative, with(shortVersion(found.A.Version), shortVersion(found.B.Version), bound)...)
			}
		}
	}
	if why := c.silence(s); why != "" {
		p.Add(metrics.Silent, 1, with(why)...)
	}
	if why := c.fixed(); why != "" {
		p.Add(metrics.Unchangeable, 1, with(why)...)
		return
	}
	pending := 0.
	if c.member.IsPending() {
		pending = 1
	}
	p.Add(metrics.Pending, pending, with()...)
}

// silence says why nothing but NCCL can decide by a version; "" where something can.
func (c *Comm) silence(s *snapshot) string {
	switch e := s.engine; {
	case e == nil && c.settings.configFile == "" && c.settings.modelFile == "":
		return "no_policy"
	case e == nil && c.settings.compares(): // NCCL alone has its turn
		return ""
	case e == nil:
		return "policy_unusable"
	case !s.view.Empty():
		return ""
	case e.Policy == nil:
		return "model_abstains"
	}
	return "no_row"
}

// fixed says why no edit reaches the communicator; "" where edits do.
func (c *Comm) fixed() string {
	switch {
	case c.member != nil && c.member.IsStatic():
		return "duplicate_id"
	case c.member != nil && c.member.IsFrozen():
		return "frozen"
	case c.member != nil:
		return ""
	}
	return c.fixedBy.label
}

// metricsLabels are names and values of the labels that all metrics of the process have. pid is
// what no two processes of a machine share: node_exporter drops all files where two samples have
// the same labels.
func metricsLabels(getenv func(string) string) []string {
	rank := ""
	for _, name := range []string{"RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"} {
		rank = cmp.Or(rank, getenv(name))
	}
	return []string{"slurm_job_id", cmp.Or(getenv("SLURM_JOB_ID"), "unknown"), "node", identity.Self().Host, "pid", identity.Self().Unique(), "rank", rank}
}
