package tuner

import (
	"sync"
	"sync/atomic"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// deciders numbers what decides by one version of a communicator's policy: NCCL, the model, and
// the rows in the order of their first decision. C counts calls by these numbers, because a known
// shape does not reach Go. nil gives all the same number, where nobody reads the counts.
type deciders struct {
	hits []atomic.Uint64 // by number

	mu      sync.Mutex
	numbers map[int]int // of rows, by index of the rule
}

// Rows for which no number is left share one.
const (
	byNCCL = iota
	byModel
	byLateRow
	firstRow
)

func newDeciders(hits []atomic.Uint64) *deciders {
	return &deciders{hits: hits, numbers: map[int]int{}}
}

// of returns the number of what has decided.
func (d *deciders) of(a policy.Answer) int {
	switch {
	case d == nil:
		return byNCCL
	case a.By == policy.ByModel:
		return byModel
	case a.By != policy.ByRow:
		return byNCCL
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n, known := d.numbers[a.Rule]
	if !known {
		if n = firstRow + len(d.numbers); n >= len(d.hits) {
			n = byLateRow
		}
		d.numbers[a.Rule] = n
	}
	return n
}

// tally is how many calls were decided by what.
type tally struct {
	nccl, model, lateRows uint64
	rows                  map[int]uint64 // by index of the rule; 0 for late ones
}

// tally may run while calls are made.
func (d *deciders) tally() tally {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := tally{nccl: d.hits[byNCCL].Load(), model: d.hits[byModel].Load(), lateRows: d.hits[byLateRow].Load(), rows: map[int]uint64{}}
	for rule, n := range d.numbers {
		if n == byLateRow {
			t.rows[rule] = 0
		} else if hits := d.hits[n].Load(); hits > 0 {
			t.rows[rule] = hits
		}
	}
	return t
}

// byRows is the sum of all rows.
func (t tally) byRows() uint64 {
	sum := t.lateRows
	for _, n := range t.rows {
		sum += n
	}
	return sum
}
