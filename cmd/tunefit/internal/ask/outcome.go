package ask

import (
	"fmt"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/commspec"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy/model"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// Question is one call of a collective, but for what NCCL thinks of it.
type Question struct {
	nccl.Call
	Shape   commspec.Shape
	PipeOps int
	RegBuff int
}

// At are the questions for calls of some sizes.
func (q Question) At(sizes []uint64) []Question {
	all := make([]Question, len(sizes))
	for i, bytes := range sizes {
		all[i] = q
		all[i].Bytes = bytes
	}
	return all
}

// query is the question as the tuner hears it through a version of its ABI.
func (q Question) query(table []float32, abi int) policy.Query {
	asked := policy.Query{Call: q.Call, PipeOps: q.PipeOps, RegBuff: q.RegBuff, Costs: nccl.Costs{Micros: table, NumProto: nccl.NumProtos}}
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
	oneNode, collNet, nvls := q.Shape.Nodes == 1, told(nccl.AlgoCollNetChain), told(nccl.AlgoNVLS) || told(nccl.AlgoNVLSTree)
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
	if q.Shape.NVL != 0 {
		s += fmt.Sprintf(", nvl_domains %d", q.Shape.ToldNVLDomains())
	}
	return s
}

// CellAt is the cell at a place in a flat table.
func CellAt(i int) nccl.Cell {
	return nccl.Cell{Algo: nccl.Algo(i / nccl.NumProtos), Proto: nccl.Proto(i % nccl.NumProtos)}
}

func cellOf(c tuning.Choice) nccl.Cell { return c.Cell }

// Outcome is what NCCL does with one call, without and with the policy.
type Outcome struct {
	Question

	NCCL         nccl.Cell // without a tuner
	NCCLMicros   float32
	NCCLChannels int       // 0: not known
	Known        knowledge // how the three are known
	costModel    string    // that was needed to know them; empty: none
	table        []float32 // that the tuner is asked with

	Policy   nccl.Cell
	Channels int // 0: NCCL's own
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
	if o.Release.Has(nccl.ChannelsOnlyLower) && o.Channels > own {
		o.Channels, o.NotRaised = 0, o.Channels
	}
}

// Alike reports whether the policy makes the same of both.
func (o Outcome) Alike(b Outcome) bool {
	return o.Policy == b.Policy && o.Channels == b.Channels && o.Chunk == b.Chunk
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
	words := []string{o.Policy.String()}
	if o.Channels > 0 {
		words = append(words, fmt.Sprintf("%d ch", o.Channels))
	}
	if o.Chunk > 0 {
		words = append(words, "chunks of "+nccl.FormatBytes(uint64(o.Chunk)))
	}
	return strings.Join(words, ", ")
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

// ChoiceJSON is a configuration as --json prints it.
type ChoiceJSON struct {
	Algorithm  string  `json:"algorithm"`
	Protocol   string  `json:"protocol"`
	Channels   int     `json:"channels,omitempty"`    // left out: NCCL's own count
	ChunkBytes int64   `json:"chunk_bytes,omitempty"` // left out: NCCL's own size
	Micros     float32 `json:"us,omitempty"`          // of NCCL's choice, see nccl_by
}

// OutcomeJSON is an Outcome as --json prints it.
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
	// What the model expects of the decision; left out where it does not know.
	Expected float64  `json:"expected_us,omitempty"`
	Gain     *float64 `json:"expected_gain,omitempty"` // as a share of the time of NCCL's choice
}

// choiceJSON returns the cell as part of a choice.
func choiceJSON(c nccl.Cell) ChoiceJSON {
	if !c.Known() {
		return ChoiceJSON{}
	}
	return ChoiceJSON{Algorithm: c.Algo.String(), Protocol: c.Proto.String()}
}

// JSON returns the outcome; by names the files that were asked.
func (o Outcome) JSON(d Decider) OutcomeJSON {
	j := OutcomeJSON{Collective: o.Coll.String(), Nodes: o.Shape.Nodes, Ranks: o.Shape.Ranks, NVLDomains: o.Shape.ToldNVLDomains(), Bytes: o.Bytes, PipeOps: o.PipeOps, RegBuff: o.RegBuff, NCCL: choiceJSON(o.NCCL), NCCLBy: o.Known.String(), CostModel: o.costModel, Policy: choiceJSON(o.Policy)}
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
	j.Why = o.why
	return j
}
