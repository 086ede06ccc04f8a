package ask

type ChoiceJSON struct {
	Algorithm  string  `json:"algorithm"`
	Protocol   string  `json:"protocol"`
	Channels   int     `json:"channels,omitempty"`    // left out: NCCL's own count
	ChunkBytes int64   `json:"chunk_bytes,omitempty"` // left out: NCCL's own size
	Micros     float32 `json:"us,omitempty"`          // of NCCL's choice, see nccl_by
}

type OutcomeJSON struct {
	Collective string     `json:"collective"`
	Nodes      int        `json:"nodes"`
	Ranks      int        `json:"ranks"`
	NVLDomains int        `json:"nvl_domains"` // 0: NCCL does not say
	Bytes      uint64     `json:"bytes"`
	PipeOps    int        `json:"pipe_ops"`
	RegBuff    int        `json:"reg_buff"`
	Release    string     `json:"nccl_release"` // whose choice nccl is
	NCCL       ChoiceJSON `json:"nccl"`
	NCCLBy     string     `json:"nccl_by"`              // a knowledge: how that is known
	CostModel  string     `json:"cost_model,omitempty"` // left out: NCCL's choice was measured
	Policy     ChoiceJSON `json:"policy"`
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

func (c Cell) JSON() ChoiceJSON {
	if c.Algo < 0 {
		return ChoiceJSON{}
	}
	return ChoiceJSON{Algorithm: c.Algo.String(), Protocol: c.Proto.String()}
}

func (o Outcome) JSON(d Decider) OutcomeJSON {
	j := OutcomeJSON{Collective: o.Coll.String(), Nodes: o.Shape.Nodes, Ranks: o.Shape.Ranks, NVLDomains: o.Shape.ToldNVLDomains(), Bytes: o.Bytes, PipeOps: o.PipeOps, RegBuff: o.RegBuff, NCCL: o.NCCL.JSON(), NCCLBy: o.Known.String(), CostModel: o.costModel, Policy: o.Policy.JSON()}
	j.NCCL.Channels, j.NCCL.Micros = o.NCCLChannels, o.NCCLMicros
	j.Release = o.Release.String()
	j.Policy.Channels, j.Policy.ChunkBytes, j.NotRaised = o.Channels, o.Chunk, o.NotRaised
	if o.Expected != nil {
		gain := o.Expected.Gain()
		j.Expected, j.Gain = o.Expected.Micros(), &gain
	}
	switch {
	case o.Row > 0:
		j.File, j.Row = d.Policy, o.Row
		return j
	case o.ByModel:
		j.File = d.Model
	}
	j.Why, j.Constants = o.why, !o.ByModel && o.Own != o.NCCL
	return j
}
