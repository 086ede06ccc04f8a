package when

import "github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"

// Evaluator evaluates conditions for one communicator. It is for one goroutine at a time.
type Evaluator struct {
	in  interpreter
	env Env
}

// NewEvaluator returns one for a communicator. Before Next it evaluates conditions that no call
// makes a difference to.
func NewEvaluator(env Env) *Evaluator { return &Evaluator{env: env} }

// Next turns to a call.
func (e *Evaluator) Next(coll nccl.Coll, bytes uint64, pipeOps int) {
	e.env.setCall(coll, bytes, pipeOps)
}

// Value returns what a name stands for; nil where that is not known.
func (e *Evaluator) Value(name string) any { return e.env[name] }

// Holds returns an error where the condition cannot be computed, as after a division by zero.
func (e *Evaluator) Holds(c *Condition) (holds bool, err error) {
	if holds, err = e.in.run(c.program, e.env); err != nil {
		err = located(c.text, err)
	}
	return holds, err
}
