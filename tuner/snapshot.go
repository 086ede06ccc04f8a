package tuner

import (
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/record"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/policyfile"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner/telemetry"
)

// snapshot is a version of the policy as one communicator uses it.
type snapshot struct {
	*policyfile.Version
	view *policy.EngineView
	// decisions, if not nil, gets each decision as text.
	decisions    *telemetry.DecisionLog
	neverDecides bool // nothing will ever be decided
}

// prepare makes this communicator's snapshot of a version. name is the communicator's on all ranks; "": none, or not
// known.
func (c *Communicator) prepare(v *policyfile.Version, name string) *snapshot {
	s := c.newSnapshot(v, name)
	if c.settings.logDecisions {
		s.decisions = telemetry.NewDecisionLog(c.log, c.info.identity(), v.Engine(), c.decided)
	}
	s.neverDecides = c.fixedBy.label != "" && s.view.Empty()
	return s
}

// newSnapshot makes a snapshot without a log of decisions, and reports rows without effect.
func (c *Communicator) newSnapshot(v *policyfile.Version, name string) *snapshot {
	e := v.Engine()
	if e == nil {
		e = &policy.Engine{}
	}
	s := &snapshot{Version: v, view: e.For(policy.Comm{
		Comm: c.info.Comm, NVLDomains: c.info.NVLDomains, NCCL: c.info.NCCL, Name: name,
	})}
	if c.log.Emit != nil { // each row is reported once, so to somebody who listens
		ReportRows(s.view, func(n record.NoEffect) {
			level := telemetry.Info
			if n.Why == record.NoEffectTopology { // the user may mend that
				level = telemetry.Warn
			}
			n.ID = c.info.identity()
			c.log.Event(level, &n)
		}, c.log.About(c.info.String()).Warnf)
	}
	c.logUnchecked(s.view)
	return s
}

// survive recovers from a panic on one of the plugin's own goroutines, where it would end the
// job.
func (c *Communicator) survive(outcome string) {
	if p := recover(); p != nil {
		c.log.Warnf("%s: a defect in the plugin: %v; %s", c.info, p, outcome)
	}
}

// ReportRows says which rows have less effect on a communicator than they should, or none: what they ask for is
// not known, or their condition fails. It warns of each failing condition once in a process.
func ReportRows(view *policy.EngineView, say func(record.NoEffect), warn func(format string, args ...any)) {
	rows := view.Rows()
	if rows == nil {
		return
	}
	for _, n := range rows.WithoutEffect() {
		say(n)
	}
	rows.ReportConditions(func(p policy.Problem) { warn("%s", p) })
}

// logUnchecked logs which channel counts for AllGather are left to NCCL, because it may use them unchecked. Releases
// 2.29.2 to 2.30.7 schedule a group of broadcasts with different roots by asking the tuner about an AllGather
// (src/scheduler/allgatherv_sched.cc). If the answer has more channels than the communicator, all ranks end in an
// internal error or a crash. It logs once for a communicator, for the first version that has such counts.
func (c *Communicator) logUnchecked(view *policy.EngineView) {
	rows, first, model := view.UncheckedAllGathers()
	if rows == 0 && !model || c.loggedUnchecked.Swap(true) {
		return
	}
	const why = "this NCCL may use it unchecked for a group of broadcasts, and crash"
	if rows > 0 {
		c.log.Infof("%s: the channel count of %s for allgather (first: line %d) is left to NCCL: %s", c.info,
			wording.Plural(rows, "row"), first.Line, why)
	}
	if model {
		c.log.Infof("%s: configurations of the model with a channel count for allgather are not used: %s", c.info, why)
	}
}
