package telemetry

import (
	"sync/atomic"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// Under a version of the policy each decider has a number: NCCL, the model, and from firstRow on the
// rows, by index of the rule. C counts calls by these numbers, because a known shape does not
// reach Go. Rows that get no number share lateRows.
const (
	byNCCL = iota
	byModel
	lateRows
	firstRow

	maxDeciders = 1 << 16
)

// Counts are a communicator's calls by what decided them, under one version of the policy.
type Counts struct {
	comm    *CommMetrics
	engine  *policy.Engine // nil: NCCL decides everything
	callsBy []atomic.Uint64
	free    func()
}

// NewCallsBy makes the memory of n counts.
type NewCallsBy func(n int) (callsBy []atomic.Uint64, free func())

// NewCounts makes the counts of a version of the communicator's policy until Free. Without newCallsBy
// nobody counts.
func (m *CommMetrics) NewCounts(e *policy.Engine, newCallsBy NewCallsBy) *Counts {
	c := &Counts{comm: m, engine: e, free: func() {}}
	if newCallsBy == nil {
		return c
	}
	n := firstRow
	if m.wanted() && e != nil && e.Policy != nil {
		n = min(firstRow+len(e.Policy.Rules), maxDeciders)
	}
	c.callsBy, c.free = newCallsBy(n)
	if m.wanted() {
		m.follow(c)
	}
	return c
}

// CallsBy returns the counts by number.
func (c *Counts) CallsBy() []atomic.Uint64 { return c.callsBy }

// Free hands the memory back. The metrics keep what was counted.
func (c *Counts) Free() {
	c.comm.fold(c)
	c.free()
}

// Decider returns the number of what has decided.
func (c *Counts) Decider(a policy.Answer) int {
	switch {
	case a.By == policy.ByModel:
		return byModel
	case a.By != policy.ByRow:
		return byNCCL
	case firstRow+a.Rule < len(c.callsBy):
		return firstRow + a.Rule
	}
	return lateRows
}

// decided is how many calls were decided by what.
type decided struct{ nccl, model, rows uint64 }

func (d decided) calls() uint64 { return d.rows + d.model + d.nccl }
