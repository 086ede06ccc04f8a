package policy

import (
	"sync"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// whenView evaluates the conditions of one communicator.
type whenView struct {
	rules  *commRules
	report func(Problem) // may be nil

	mu    sync.Mutex // for what follows
	m     machine
	env   whenEnv
	call  uint64   // counts those that came to a condition
	known []uint64 // by a condition's id: 2*call, or 2*call+1 if it holds for that call
	lists [][]int32
}

func newWhenView(rules *commRules) *whenView {
	if rules == nil {
		return nil
	}
	w := &whenView{rules: rules}
	if len(rules.stacks) > 0 {
		w.env = whenEnv{}
		for name, value := range rules.env {
			w.env[name] = value
		}
	}
	return w
}

func (w *whenView) always() index {
	if w == nil {
		return nil
	}
	return w.rules.always
}

func (w *whenView) empty() bool { return w == nil || len(w.rules.stacks) == 0 }

// WithoutTopology returns how many rows would be for this communicator if the
// topology were known. They never match.
func (v *View) WithoutTopology() int {
	if v.when == nil {
		return 0
	}
	return v.when.rules.withoutTopology
}

// ReportConditions asks to be told of each row whose condition cannot be
// evaluated, as after a division by zero; such a row does not match. A row is
// reported once per policy, to the first that asks. Call it before Decide.
func (v *View) ReportConditions(report func(Problem)) {
	if v.when == nil {
		return
	}
	v.when.report = report
	for _, f := range v.when.rules.failures {
		v.failed(int(f.rule), f.err)
	}
}

func (v *View) failed(rule int, err error) {
	if v.when.report == nil {
		return
	}
	c := v.policy.conditional
	c.mu.Lock()
	first := !c.reported[int32(rule)]
	c.reported[int32(rule)] = true
	c.mu.Unlock()
	if r := &v.policy.Rules[rule]; first {
		v.when.report(Problem{v.policy.File, r.Line, r.When.column, err.Error()})
	}
}

// decideByCondition finds the first rule before another, or at all where that is
// -1, whose condition holds for the call and that can decide it.
func (v *View) decideByCondition(q *Query, before int) (d Decision, ok bool) {
	w := v.when
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lists = w.lists[:0]
	for _, coll := range [...]nccl.Coll{anyColl, q.Coll} {
		for c := range q.calls() {
			if s := w.rules.stacks[stackKey{coll, c}]; s != nil {
				w.lists = s.covering(q.Bytes, w.lists)
			}
		}
	}
	for fresh := true; ; fresh = false {
		rule := popFirst(w.lists)
		if rule < 0 || before >= 0 && rule > before {
			return Decision{}, false
		}
		if fresh {
			w.env.setCall(q, v.comm.Ranks)
			w.call++
		}
		if v.holds(rule) {
			if d, ok = v.apply(rule, q); ok {
				return d, true
			}
		}
	}
}

// holds evaluates the condition of a rule, once per call.
func (v *View) holds(rule int) bool {
	w, when := v.when, v.policy.Rules[rule].When
	if w.known == nil {
		w.known = make([]uint64, v.policy.conditional.ids)
	}
	if known := w.known[when.id]; known/2 == w.call {
		return known%2 == 1
	}
	holds, err := w.m.holds(when, w.env)
	if err != nil {
		v.failed(rule, err)
	}
	w.known[when.id] = 2 * w.call
	if holds {
		w.known[when.id]++
	}
	return holds
}
