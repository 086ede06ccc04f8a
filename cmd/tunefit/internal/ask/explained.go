package ask

import (
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// Explained is an outcome with all that led to it.
type Explained struct {
	policy.Explanation
	Outcome   Outcome
	Engine    *policy.Engine
	Costs     *tuning.Tuning // NCCL's
	Estimated []float32      // by them, of each cell; below 0: not available
	Source    string         // of the costs
}

// Explain asks one question and says what led to the answer.
func (a *Asker) Explain(d Decider, q Question) (x Explained, err error) {
	q.Shape = q.Shape.Through(a.ABI)
	answers, err := a.Ask(d, q.Shape, []Question{q})
	if err != nil {
		return x, err
	}
	x.Outcome, x.Engine = answers[0], a.engines[d]
	if x.Costs, err = a.Costs.Of(q.Shape); err != nil {
		return x, err
	}
	x.Estimated = a.table(x.Costs, q, nccl.NoCell)
	x.Explanation = a.view(d, q.Shape).Explain(q.query(x.Outcome.table, a.ABI))
	x.Source = a.Costs.Source()
	return x, nil
}
