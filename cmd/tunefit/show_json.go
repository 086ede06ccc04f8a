package main

import (
	"encoding/json"
	"io"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

type choiceJSON struct {
	Algorithm  string  `json:"algorithm"`
	Protocol   string  `json:"protocol"`
	Channels   int     `json:"channels,omitempty"`    // left out: NCCL's own count
	ChunkBytes int64   `json:"chunk_bytes,omitempty"` // left out: NCCL's own size
	Micros     float32 `json:"us,omitempty"`          // of NCCL's choice, see nccl_by
}

type outcomeJSON struct {
	Collective string     `json:"collective"`
	Nodes      int        `json:"nodes"`
	Ranks      int        `json:"ranks"`
	NVLDomains int        `json:"nvl_domains"` // 0: NCCL does not say
	Bytes      uint64     `json:"bytes"`
	PipeOps    int        `json:"pipe_ops"`
	RegBuff    int        `json:"reg_buff"`
	Release    string     `json:"nccl_release"` // whose choice nccl is
	NCCL       choiceJSON `json:"nccl"`
	NCCLBy     string     `json:"nccl_by"`              // a knowledge: how that is known
	CostModel  string     `json:"cost_model,omitempty"` // left out: NCCL's choice was measured
	Policy     choiceJSON `json:"policy"`
	File       string     `json:"file,omitempty"` // of the row or the model that decided; left out: NCCL did
	Row        int        `json:"row,omitempty"`  // left out: no row decided
	Why        string     `json:"why,omitempty"`  // what a model expects, or why none decided
	// NotRaised is the channel count that the decision asks for in vain.
	NotRaised int `json:"channels_not_raised,omitempty"`
	// Constants says that NCCL chooses otherwise by the constants of the model.
	Constants bool `json:"by_constants,omitempty"`
	// What the model expects of the decision; left out where it does not know.
	Expected float64  `json:"expected_us,omitempty"`
	Gain     *float64 `json:"expected_gain,omitempty"` // as a share of the time of NCCL's choice
}

func (j *outcomeJSON) expect(c model.Choice) {
	gain := c.Gain()
	j.Expected, j.Gain = c.Micros(), &gain
}

func (c cell) json() choiceJSON {
	if c.algo < 0 {
		return choiceJSON{}
	}
	return choiceJSON{Algorithm: c.algo.String(), Protocol: c.proto.String()}
}

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
	return writeJSON(w, all)
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
