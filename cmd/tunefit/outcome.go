package main

import (
	"fmt"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/grid"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// question is one call of a collective, but for what NCCL thinks of it.
type question struct {
	coll    nccl.Coll
	shape   grid.Shape
	bytes   uint64
	pipeOps int
	regBuff int
}

// query is the question as the tuner hears it through a version of its ABI.
func (q question) query(table []float32, abi int) policy.Query {
	asked := policy.Query{Coll: q.coll, Bytes: q.bytes, PipeOps: q.pipeOps, RegBuff: q.regBuff, Costs: nccl.Costs{Micros: table, NumProto: nccl.NumProtos}}
	if abi < nccl.ABIRegBuff {
		asked.RegBuff = -1
	}
	if abi == nccl.ABINoCosts {
		asked.Costs.Micros, asked.Costs.AvailableOnly = availableV2(q, table), true
	}
	return asked
}

// availableV2 is what the library takes for available where the ABI does not tell, as tables.c does.
func availableV2(q question, table []float32) []float32 {
	cells := make([]float32, int(nccl.AlgoPAT)*nccl.NumProtos)
	for i := range cells {
		cells[i] = nccl.Unavailable
	}
	costs := nccl.Costs{Micros: table, NumProto: nccl.NumProtos}
	offer := func(algo nccl.Algo, proto nccl.Proto) { cells[costs.Cell(algo, proto)] = 0 }
	told := func(algo nccl.Algo) bool { return costs.Offers(algo, nccl.ProtoSimple) }
	for _, proto := range []nccl.Proto{nccl.ProtoLL, nccl.ProtoSimple} {
		offer(nccl.AlgoRing, proto)
		if q.coll == nccl.CollAllReduce {
			offer(nccl.AlgoTree, proto)
		}
	}
	oneNode, collNet, nvls := q.shape.Nodes == 1, told(nccl.AlgoCollNetChain), told(nccl.AlgoNVLS) || told(nccl.AlgoNVLSTree)
	switch q.coll {
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

// callText names a call that is not the usual one.
func (q question) callText() string {
	var s string
	if q.pipeOps != 1 {
		s += fmt.Sprintf(", pipe_ops %d", q.pipeOps)
	}
	if q.regBuff != 0 {
		s += ", reg_buff 1"
	}
	if q.shape.NVL != 0 {
		s += fmt.Sprintf(", nvl_domains %d", q.shape.ToldNVLDomains())
	}
	return s
}

// cell is an algorithm and a protocol.
type cell struct {
	algo  nccl.Algo
	proto nccl.Proto
}

// cellAt is the cell at a place in a flat table.
func cellAt(i int) cell { return cell{nccl.Algo(i / nccl.NumProtos), nccl.Proto(i % nccl.NumProtos)} }

// noCell is the choice of an NCCL that has nothing to choose from.
var noCell = cell{-1, -1}

func cellOf(c tuning.Choice) cell { return cell{c.Algo, c.Proto} }

func (c cell) String() string {
	if c.algo < 0 {
		return "-"
	}
	return fmt.Sprintf("%s/%s", c.algo, c.proto)
}

// outcome is what NCCL does with one call, without and with the policy.
type outcome struct {
	question

	nccl         cell // without a tuner
	ncclMicros   float32
	ncclChannels int       // 0: not known
	known        knowledge // how the three are known
	costModel    string    // that was needed to know them; empty: none
	own          cell      // with the constants that the plugin writes, without its decision
	table        []float32 // that the plugin is asked with

	policy   cell
	channels int // 0: NCCL's own
	chunk    int64
	expected *policy.ModelChoice // of the decision, by the model; nil where it does not know or where all is left to NCCL
	row      int                 // line of the policy that decided; 0: none did
	byModel  bool
	why      string // what was decided instead of what, and why by nobody else; empty where another plugin decides

	release   nccl.Version // of NCCL
	notRaised int          // channels that the policy asks for and that NCCL does not raise its own number to
	abi       int          // version of the tuner ABI that the plugin was asked by
}

// keepLower drops a channel count that NCCL does not raise its own to, where that is so.
func (o *outcome) keepLower(own int) {
	if o.release.Has(nccl.ChannelsOnlyLower) && o.channels > own {
		o.channels, o.notRaised = 0, o.channels
	}
}

// alike reports whether the policy makes the same of both.
func (o outcome) alike(b outcome) bool {
	return o.policy == b.policy && o.channels == b.channels && o.chunk == b.chunk
}

// decidedBy names the row, or who else decided. A plugin other than ours does not
// tell its row.
func (o outcome) decidedBy(d decider) string {
	switch {
	case o.row > 0:
		return fmt.Sprintf("%s:%d", d.policy, o.row)
	case o.byModel:
		return d.model
	case o.policy != o.own || o.channels > 0 || o.chunk > 0:
		return "the plugin"
	}
	return o.byNCCL(d)
}

// byNCCL says that NCCL decides, and by whose constants if that makes a difference.
func (o outcome) byNCCL(d decider) string {
	switch {
	case o.own == o.nccl:
		return "NCCL"
	case d.model == "":
		return "NCCL with the plugin's constants"
	}
	return "NCCL with the constants of " + d.model
}

// choice is what the policy makes of a call, in a few words.
func (o outcome) choice() string {
	words := []string{o.policy.String()}
	if o.channels > 0 {
		words = append(words, fmt.Sprintf("%d ch", o.channels))
	}
	if o.chunk > 0 {
		words = append(words, "chunks of "+nccl.FormatBytes(uint64(o.chunk)))
	}
	return strings.Join(words, ", ")
}

// decidedByKind is one of deciders.
func (o outcome) decidedByKind() string {
	switch {
	case o.row > 0:
		return "row"
	case o.byModel:
		return "model"
	}
	return "nccl"
}
