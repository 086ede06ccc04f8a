package tuner

import (
	"slices"
	"sync/atomic"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// snapshot is a version of the policy as one communicator uses it.
type snapshot struct {
	*version
	comm *Comm
	view *policy.EngineView
	// decisions, if not nil, gets each decision as text.
	decisions *decisionLog
	cache     Cache           // nil: none
	hits      []atomic.Uint64 // the cache's, of what can decide; nil: nobody reads them
	prewarmed []answer        // not logged and recorded yet
}

// prepare makes this communicator's snapshot of a version.
func (c *Comm) prepare(v *version) (*snapshot, error) {
	e := v.engine
	if e == nil {
		e = &policy.Engine{}
	}
	s := &snapshot{version: v, comm: c, view: e.For(policy.Comm{
		Nodes: c.info.Nodes, Ranks: c.info.Ranks, NVLDomains: c.info.NVLDomains, UncheckedAllGather: c.info.UncheckedAllGather,
	})}
	logConditions(s.view, c.log)
	c.logUnchecked(s.view)
	if c.settings.logDecisions {
		s.decisions = newDecisionLog(c.log, e)
	}
	if c.info.NewCache != nil {
		var err error
		if s.cache, err = c.info.NewCache(); err != nil {
			return nil, err
		}
		if c.settings.metrics != "" {
			s.hits = s.cache.Hits()
			if e.Policy != nil {
				s.hits = s.hits[:min(firstRow+len(e.Policy.Rules), len(s.hits))]
			}
			c.plugin.exporter.follow(s)
		}
	}
	return s, nil
}

// Begin implements agree.Snapshot: it logs and records the decisions of the prewarm.
func (s *snapshot) Begin() {
	defer s.comm.survive("what was decided is not logged in full")
	for _, a := range slices.Backward(s.prewarmed) {
		if s.decisions != nil {
			s.decisions.add(a.Query, a.Answer)
		}
		s.comm.recording.add(s.engine, a.Query, a.Answer)
	}
	s.prewarmed = nil
}

// Retire implements agree.Snapshot: the communicator uses this version no more.
func (s *snapshot) Retire() {
	defer s.comm.survive("some memory is lost")
	if s.decisions != nil {
		s.decisions.sumUp()
	}
	s.comm.plugin.exporter.fold(s)
	if s.cache != nil {
		s.cache.Free()
	}
}

// survive recovers from a panic on one of the plugin's own goroutines, where it would end the
// job.
func (c *Comm) survive(outcome string) {
	if p := recover(); p != nil {
		c.log.Warnf("%s: a defect in the plugin: %v; %s", c.info, p, outcome)
	}
}

// logConditions logs which rows have no effect or less than they should: those whose
// condition fails, and those that need a topology that is not known.
func logConditions(view *policy.EngineView, log Log) {
	rows := view.Rows()
	if rows == nil || log.Emit == nil {
		return // each row is reported once in a process, so to somebody who listens
	}
	if n := rows.WithoutTopology(); n > 0 {
		log.Warnf("%s for this communicator by the machine's topology, which is not known: without effect", plural(n, "row is", "rows are"))
	}
	rows.ReportConditions(func(p policy.Problem) { log.Warnf("%s", p) })
}
