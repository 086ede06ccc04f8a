package when

import "github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"

// Evaluator evaluates the conditions of one file for one communicator, each once per call: rows may
// share them. It is for one goroutine at a time.
type Evaluator struct {
	in    interpreter
	env   Env
	call  uint64   // counts the calls
	known []uint64 // by a condition's id: 2*call, or 2*call+1 if it holds for that call
}

// NewEvaluator returns one for a communicator. Before Next it evaluates conditions that no call
// makes a difference to.
func NewEvaluator(env Env) *Evaluator { return &Evaluator{env: env, call: 1} }

// Next turns to a call.
func (e *Evaluator) Next(coll nccl.Coll, bytes uint64, pipeOps int) {
	e.env.setCall(coll, bytes, pipeOps)
	e.call++
}

// Value returns what a name stands for; nil where that is not known.
func (e *Evaluator) Value(name string) any { return e.env[name] }

// Holds returns an error, as after a division by zero, only the first time that the condition comes
// up in a call.
func (e *Evaluator) Holds(c *Condition) (holds bool, err error) {
	for len(e.known) <= c.id {
		e.known = append(e.known, 0)
	}
	if known := e.known[c.id]; known/2 == e.call {
		return known%2 == 1, nil
	}
	if holds, err = e.in.run(c.program, e.env); err != nil {
		err = located(c.text, err)
	}
	e.known[c.id] = 2 * e.call
	if holds {
		e.known[c.id]++
	}
	return holds, err
}
