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
)

// MaxDeciders bounds these numbers.
const MaxDeciders = 1 << 16

// Follow tells that calls are from now on decided by a version with this engine; nil: NCCL decides everything. What the
// version before has decided is kept. Only the thread that makes the calls calls it.
func (m *CommMetrics) Follow(e *policy.Engine) {
	m.exporter.mu.Lock()
	defer m.exporter.mu.Unlock()
	m.fold()
	m.engine = e
}

// fold adds what is counted to the totals, and begins anew. The caller holds the exporter's mutex.
func (m *CommMetrics) fold() {
	if m.dir == "" {
		return
	}
	counted := m.counted()
	m.exporter.rows.add(m.exporter.rows, m, &m.before)
	for i := range counted {
		counted[i].Store(0)
	}
}

// counted are the counts by number. Without metrics, nothing is counted by row.
func (m *CommMetrics) counted() []atomic.Uint64 {
	n := firstRow
	if m.dir != "" && m.engine != nil && m.engine.Policy != nil {
		n += len(m.engine.Policy.Rules)
	}
	return m.callsBy[:min(n, len(m.callsBy))]
}

// Decider returns the number of what has decided.
func (m *CommMetrics) Decider(a policy.Answer) int {
	switch {
	case a.By == policy.ByModel:
		return byModel
	case a.By != policy.ByRow:
		return byNCCL
	case firstRow+a.Rule < len(m.counted()):
		return firstRow + a.Rule
	}
	return lateRows
}

// decided is how many calls were decided by what.
type decided struct{ nccl, model, rows uint64 }

func (d decided) calls() uint64 { return d.rows + d.model + d.nccl }
