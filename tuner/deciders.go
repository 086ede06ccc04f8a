package tuner

import (
	"sync/atomic"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// What decides by a version of the policy has a number: NCCL, the model, and from firstRow on the
// rows, by index of the rule. C counts calls by these numbers (Comm.Hits), because a known shape
// does not reach Go. Rows for which no number is left share lateRows.
const (
	byNCCL = iota
	byModel
	lateRows
	firstRow

	maxDeciders = 1 << 16
)

// decider returns the number of what has decided.
func (s *snapshot) decider(a policy.Answer) int {
	switch {
	case a.By == policy.ByModel:
		return byModel
	case a.By != policy.ByRow:
		return byNCCL
	case firstRow+a.Rule < len(s.hits):
		return firstRow + a.Rule
	}
	return lateRows
}

// decided is how many calls were decided by what.
type decided struct{ nccl, model, rows uint64 }

// noRule stands for the rows that have no number.
const noRule = lateRows - firstRow

// add adds what a version has decided by now, and tells each row that has decided calls. Calls may
// go on meanwhile.
func (d *decided) add(hits []atomic.Uint64, row func(rule int, n uint64)) {
	d.nccl += hits[byNCCL].Load()
	d.model += hits[byModel].Load()
	for i := lateRows; i < len(hits); i++ {
		if n := hits[i].Load(); n > 0 {
			d.rows += n
			row(i-firstRow, n)
		}
	}
}
