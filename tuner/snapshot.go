package tuner

import (
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/plural"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// snapshot is a version of the policy as one communicator uses it.
type snapshot struct {
	*policyfile.Version
	comm *Comm
	view *policy.EngineView
	// decisions, if not nil, gets each decision as text.
	decisions *telemetry.DecisionLog
	counts    *telemetry.Counts // of calls by what decided them
	idle      bool              // nothing will ever be decided
}

// prepare makes this communicator's snapshot of a version.
func (c *Comm) prepare(v *policyfile.Version) *snapshot {
	e := v.Engine()
	if e == nil {
		e = &policy.Engine{}
	}
	s := &snapshot{Version: v, comm: c, view: e.For(policy.Comm{
		Comm: c.info.Comm, NVLDomains: c.info.NVLDomains,
		UncheckedAllGather: c.info.UncheckedAllGather,
	})}
	if c.log.Emit != nil { // each row is reported once, so to somebody who listens
		WarnOfConditions(s.view, c.log.Warnf)
	}
	c.logUnchecked(s.view)
	if c.settings.logDecisions {
		s.decisions = telemetry.NewDecisionLog(c.log, e)
	}
	newHits := c.info.NewHits
	if s.idle = c.fixedBy.label != "" && s.view.Empty(); s.idle {
		newHits = nil
	}
	s.counts = c.metrics.NewCounts(v.Engine(), newHits)
	return s
}

// Retire implements agree.Snapshot: the communicator uses this version no more.
func (s *snapshot) Retire() {
	defer s.comm.survive("some memory is lost")
	if s.decisions != nil {
		s.decisions.SumUp()
	}
	s.counts.Free()
}

// survive recovers from a panic on one of the plugin's own goroutines, where it would end the
// job.
func (c *Comm) survive(outcome string) {
	if p := recover(); p != nil {
		c.log.Warnf("%s: a defect in the plugin: %v; %s", c.info, p, outcome)
	}
}

// WarnOfConditions warns of rows that have less effect on a communicator than they should, or none. Their
// condition fails, or it needs a topology that is not known. It warns of each row once in a process.
func WarnOfConditions(view *policy.EngineView, warn func(format string, args ...any)) {
	rows := view.Rows()
	if rows == nil {
		return
	}
	if n := rows.WithoutTopology(); n > 0 {
		warn("%s for this communicator by the machine's topology, which is not known: without effect",
			plural.Of(n, "row")+plural.Verb(n, " is", " are"))
	}
	rows.ReportConditions(func(p policy.Problem) { warn("%s", p) })
}
