package main

import (
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// explained is an outcome with all that led to it.
type explained struct {
	policy.Explanation
	asked     outcome
	engine    *policy.Engine
	costs     *tuning.Tuning // NCCL's, with the constants that the model replaces
	estimated []float32      // by them, of each cell; below 0: not available
	source    string         // of the costs
	// constantsIgnored says that what NCCL estimates with the model's constants is not known.
	constantsIgnored bool
}

// explain asks one question and says what led to the answer.
func (a *asker) explain(d decider, q question) (x explained, err error) {
	q.shape = q.shape.Through(a.abi)
	answers, err := a.ask(d, q.shape, []question{q})
	if err != nil {
		return x, err
	}
	x.asked, x.engine = answers[0], a.engines[d]
	if x.costs, err = a.tuning(d, q.shape); err != nil {
		return x, err
	}
	x.estimated = a.table(x.costs, q, noCell)
	x.Explanation = x.engine.For(commOf(q.shape, x.asked.release)).Explain(q.query(x.asked.table, x.asked.abi))
	x.source, x.constantsIgnored = a.costs.Source(), a.costs.Ignored > 0
	return x, nil
}
