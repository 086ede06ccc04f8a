// Package explain prints how one decision is made: by rows, conditions, a model or NCCL. It says what to do where the
// model abstains.
package explain

import (
	"fmt"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/fit"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// Path is how one decision is made.
type Path struct {
	ask.Explained
	columns int // of the terminal that it is written to, see cli.Width
}

// advice says what to measure or do so that a model that abstains can decide; nil if nothing helps.
func (p *Path) advice() []string {
	q := p.Outcome
	where := fmt.Sprintf("%s on %s with %s", q.Coll, wording.Plural(q.Comm.Nodes, "node"),
		wording.Plural(q.Comm.Ranks, "rank"))
	switch p.Why {
	case model.AbstainColl, model.AbstainComm, model.AbstainOneNode, model.AbstainPerNode:
		return []string{"measure " + where + p.sweep()}
	case model.AbstainNodes:
		advice := []string{"measure " + where + p.sweep()}
		if fit.MayCarry(p.Engine.Model.File, fit.Key{Coll: q.Coll, Comm: q.Comm.Comm}) {
			advice = append(advice, fmt.Sprintf("or carry rows over that gain much on the nodes that were measured: "+
				"tunefit fit --csv FILE.csv --max-nodes %d", q.Comm.Nodes))
		}
		return advice
	case model.AbstainRelease:
		return []string{fmt.Sprintf("measure %s with NCCL %s (the model is for %s)%s", where, q.Release,
			p.Engine.Model.Releases(), p.sweep())}
	case model.AbstainSize:
		return []string{fmt.Sprintf("measure %s at sizes around %s, too", where, nccl.FormatBytes(q.Bytes))}
	case model.AbstainCells:
		names := make([]string, 0, len(p.Estimated))
		for _, e := range p.estimates() {
			names = append(names, e.Cell.String())
		}
		return []string{"measure what is available here: " + fewOf(names)}
	case model.AbstainDefault:
		return []string{"measure " + where + " once without NCCL_ALGO, NCCL_PROTO and channel counts"}
	case model.AbstainGain:
		return []string{fmt.Sprintf("measure at %s itself, or more often, if so little is worth it",
			nccl.FormatBytes(q.Bytes))}
	}
	return nil
}

// sweep names the command that measures it.
func (p *Path) sweep() string {
	s := p.Outcome.Comm
	if s.Ranks%s.Nodes != 0 {
		return ""
	}
	return fmt.Sprintf("; tunefit sweep --coll %s --comm %s -o sweep does", p.Outcome.Coll, s)
}
