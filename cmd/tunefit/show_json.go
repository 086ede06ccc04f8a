package main

import (
	"io"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
)

func (o outcome) json(d decider) outcomeJSON {
	j := outcomeJSON{Collective: o.coll.String(), Nodes: o.shape.nodes, Ranks: o.shape.ranks, NVLDomains: o.shape.toldNVLDomains(), Bytes: o.bytes, PipeOps: o.pipeOps, RegBuff: o.regBuff, NCCL: o.nccl.json(), NCCLBy: o.known.String(), CostModel: o.costModel, Policy: o.policy.json()}
	j.NCCL.Channels, j.NCCL.Micros = o.ncclChannels, o.ncclMicros
	j.Release = o.release.String()
	j.Policy.Channels, j.Policy.ChunkBytes, j.NotRaised = o.channels, o.chunk, o.notRaised
	switch {
	case o.by.Row > 0:
		j.File, j.Row = d.policy, o.by.Row
		return j
	case o.by.Model:
		j.File = d.model
	}
	j.Why, j.Constants = o.by.Why, !o.by.Model && o.own != o.nccl
	return j
}

func (t *decisionTable) writeJSON(w io.Writer) error {
	all := make([]outcomeJSON, len(t.outcomes))
	for i, o := range t.outcomes {
		all[i] = o.json(t.by)
		if t.expected[i] != nil {
			all[i].expect(*t.expected[i])
		}
	}
	return cli.WriteJSON(w, all)
}
