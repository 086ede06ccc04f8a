package ask

import (
	"fmt"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
)

// Question is one call on a communicator, without NCCL's estimates.
type Question struct {
	nccl.Call
	Comm    policy.Comm
	PipeOps int
	RegBuff int
}

// query is the question as the tuner hears it through a version of its ABI.
func (q Question) query(table []float32, abi int) policy.Query {
	asked := policy.Query{Call: q.Call, PipeOps: q.PipeOps, RegBuff: q.RegBuff,
		Costs: nccl.Costs{Micros: table, NumProto: nccl.NumProtos}}
	if abi < nccl.ABIRegBuff {
		asked.RegBuff = -1
	}
	if abi == nccl.ABINoCosts {
		asked.Costs.Micros, asked.Costs.AvailableOnly = availableV2(q, table), true
	}
	return asked
}

// availableV2 is what the library takes for available where the ABI does not tell, as tables.c does.
func availableV2(q Question, table []float32) []float32 {
	cells := make([]float32, int(nccl.AlgoPAT)*nccl.NumProtos)
	for i := range cells {
		cells[i] = nccl.Unavailable
	}
	costs := nccl.Costs{Micros: table, NumProto: nccl.NumProtos}
	offer := func(algo nccl.Algo, proto nccl.Proto) { cells[costs.Index(nccl.Cell{Algo: algo, Proto: proto})] = 0 }
	told := func(algo nccl.Algo) bool { return costs.Offers(nccl.Cell{Algo: algo, Proto: nccl.ProtoSimple}) }
	for _, proto := range []nccl.Proto{nccl.ProtoLL, nccl.ProtoSimple} {
		offer(nccl.AlgoRing, proto)
		if q.Coll == nccl.CollAllReduce {
			offer(nccl.AlgoTree, proto)
		}
	}
	oneNode, collNet, nvls := q.Comm.Nodes == 1, told(nccl.AlgoCollNetChain), told(nccl.AlgoNVLS) ||
		told(nccl.AlgoNVLSTree)
	switch q.Coll {
	case nccl.CollAllReduce:
		if collNet {
			offer(nccl.AlgoCollNetDirect, nccl.ProtoSimple)
			offer(nccl.AlgoCollNetChain, nccl.ProtoSimple)
		}
		if nvls && (oneNode || collNet) {
			offer(nccl.AlgoNVLS, nccl.ProtoSimple)
		}
		if nvls && !oneNode {
			offer(nccl.AlgoNVLSTree, nccl.ProtoSimple)
		}
	case nccl.CollAllGather, nccl.CollReduceScatter:
		if nvls && oneNode {
			offer(nccl.AlgoNVLS, nccl.ProtoSimple)
		}
	}
	return cells
}

// CallText names a call that is not the usual one.
func (q Question) CallText() string {
	var s string
	if q.PipeOps != 1 {
		s += fmt.Sprintf(", pipe_ops %d", q.PipeOps)
	}
	if q.RegBuff != 0 {
		s += ", reg_buff 1"
	}
	return s
}

// CellAt is the cell at a place in a flat table.
func CellAt(i int) nccl.Cell {
	return nccl.Cell{Algo: nccl.Algo(i / nccl.NumProtos), Proto: nccl.Proto(i % nccl.NumProtos)}
}

// Outcome is what NCCL does with one call, without and with the policy.
type Outcome struct {
	Question

	NCCL       nccl.Config // without a tuner; 0 channels: not known
	NCCLMicros float32
	Known      knowledge // how both are known
	costModel  string    // that was needed to know them; empty: none
	table      []float32 // that the tuner is asked with

	Policy   nccl.Config // 0 channels: NCCL's own
	Chunk    int64
	Expected *model.Choice // of the decision, by the model; nil where it does not know or where all is left to NCCL
	Row      int           // line of the policy that decided; 0: none did
	ByModel  bool
	why      string // what was decided instead of what, and why by nobody else

	Release   nccl.Version // of NCCL
	NotRaised int          // channels that the policy asks for and that NCCL does not raise its own number to
}

// keepLower drops a channel count that NCCL does not raise its own to, where that is so.
func (o *Outcome) keepLower(own int) {
	if o.Release.Has(nccl.ChannelsOnlyLower) && o.Policy.Channels > own {
		o.Policy.Channels, o.NotRaised = 0, o.Policy.Channels
	}
}

// Alike reports whether the policy makes the same of both.
func (o Outcome) Alike(b Outcome) bool {
	return o.Policy == b.Policy && o.Chunk == b.Chunk
}

// DecidedBy names the row, or who else decided.
func (o Outcome) DecidedBy(d Decider) string {
	switch {
	case o.Row > 0:
		return fmt.Sprintf("%s:%d", d.Policy, o.Row)
	case o.ByModel:
		return d.Model
	}
	return "NCCL"
}

// Choice is what the policy makes of a call, in a few words.
func (o Outcome) Choice() string {
	if o.Chunk > 0 {
		return o.Policy.String() + ", chunks of " + nccl.FormatBytes(uint64(o.Chunk))
	}
	return o.Policy.String()
}

// DecidedByKind is one of deciders.
func (o Outcome) DecidedByKind() string {
	switch {
	case o.Row > 0:
		return "row"
	case o.ByModel:
		return "model"
	}
	return "nccl"
}

// ChoiceJSON is a configuration as --json prints it: with names that are empty where there is none.
type ChoiceJSON struct {
	Algorithm  string  `json:"algorithm"`
	Protocol   string  `json:"protocol"`
	Channels   int     `json:"channels,omitempty"`    // left out: NCCL's own count
	ChunkBytes int64   `json:"chunk_bytes,omitempty"` // left out: NCCL's own size
	Micros     float32 `json:"us,omitempty"`          // of NCCL's choice, see nccl_by
}

// OutcomeJSON is an Outcome as --json prints it.
type OutcomeJSON struct {
	nccl.Call
	nccl.Comm
	NVLDomains int        `json:"nvl_domains"` // 0: NCCL does not say
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
	// What the model expects of the decision; left out where it does not know.
	Expected float64  `json:"expected_us,omitempty"`
	Gain     *float64 `json:"expected_gain,omitempty"` // as a share of the time of NCCL's choice
}

func choiceJSON(c nccl.Config) ChoiceJSON {
	if !c.Known() {
		return ChoiceJSON{Channels: c.Channels}
	}
	return ChoiceJSON{Algorithm: c.Algo.String(), Protocol: c.Proto.String(), Channels: c.Channels}
}

// JSON returns the outcome; by names the files that were asked.
func (o Outcome) JSON(by Decider) OutcomeJSON {
	j := OutcomeJSON{
		Call: o.Call, Comm: o.Comm.Comm, NVLDomains: o.Comm.NVLDomains, PipeOps: o.PipeOps, RegBuff: o.RegBuff,
		Release: o.Release.String(), NCCL: choiceJSON(o.NCCL), NCCLBy: o.Known.String(), CostModel: o.costModel,
		Policy: choiceJSON(o.Policy), Row: o.Row, NotRaised: o.NotRaised,
	}
	j.NCCL.Micros, j.Policy.ChunkBytes = o.NCCLMicros, o.Chunk
	if o.Expected != nil {
		gain := o.Expected.Gain()
		j.Expected, j.Gain = o.Expected.Micros(), &gain
	}
	switch {
	case o.Row > 0:
		j.File = by.Policy
		return j
	case o.ByModel:
		j.File = by.Model
	}
	j.Why = o.why
	return j
}
