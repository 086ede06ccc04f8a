package main

import (
	"fmt"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
)

// advice is what to measure so that a silent model may speak; "" where nothing helps.
func (p *decisionPath) advice() string {
	q := p.question
	where := fmt.Sprintf("%s on %s with %s", q.coll, countOf(q.shape.nodes, "node"), countOf(q.shape.ranks, "rank"))
	switch p.Why {
	case policy.SilentColl, policy.SilentComm, policy.SilentOneNode, policy.SilentPerNode:
		return "measure " + where + "; tunefit fit SWEEPS --shortlist says what"
	case policy.SilentNodes:
		return fmt.Sprintf("measure %s, or allow it to guess, cautiously, with tunefit fit --max-nodes %d", where, q.shape.nodes)
	case policy.SilentSize:
		return fmt.Sprintf("measure %s at sizes around %s", where, policy.FormatBytes(q.bytes))
	case policy.SilentCells:
		names := make([]string, 0, len(p.table))
		for _, e := range p.estimates() {
			names = append(names, e.cell.String())
		}
		return "measure what NCCL offers here: " + fewOf(names, 3)
	case policy.SilentTwins:
		return "repeat the measurement and see in NCCL's log that NCCL_ALGO and NCCL_PROTO were obeyed"
	case policy.SilentDefault:
		return "measure " + where + " once without NCCL_ALGO, NCCL_PROTO and channel counts"
	case policy.SilentGain:
		return fmt.Sprintf("measure at %s itself, or more often, if so little is worth it", policy.FormatBytes(q.bytes))
	case policy.SilentFarther:
		return "measure " + where + " itself"
	}
	return ""
}
