package main

import (
	"fmt"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/policy"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/release"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
	"github.com/nccl-tuner-go/nccl-tuner-go/tuner"
)

// question is one call of a collective, but for what NCCL thinks of it.
type question struct {
	coll    policy.Coll
	shape   shape
	bytes   uint64
	pipeOps int
	regBuff int
}

// query is the question as the tuner hears it through a version of its ABI.
func (q question) query(table []float32, abi int) policy.Query {
	asked := policy.Query{Coll: q.coll, Bytes: q.bytes, PipeOps: q.pipeOps, RegBuff: q.regBuff, Costs: policy.Costs{Micros: table, NumProto: tuning.NumProtos}}
	if abi < 4 {
		asked.RegBuff = -1
	}
	if abi == 2 {
		asked.Costs.Micros, asked.Costs.AvailableOnly = availableV2(q, table), true
	}
	return asked
}

// availableV2 is what the library takes for available where the ABI does not tell, as tables.c does.
func availableV2(q question, table []float32) []float32 {
	cells := make([]float32, tuning.AlgoPAT*tuning.NumProtos)
	for i := range cells {
		cells[i] = tuning.Unavailable
	}
	offer := func(algo, proto int) { cells[algo*tuning.NumProtos+proto] = 0 }
	told := func(algo int) bool { return table[algo*tuning.NumProtos+tuning.ProtoSimple] >= 0 }
	for _, proto := range []int{tuning.ProtoLL, tuning.ProtoSimple} {
		offer(tuning.AlgoRing, proto)
		if q.coll == policy.CollAllReduce {
			offer(tuning.AlgoTree, proto)
		}
	}
	oneNode, collNet, nvls := q.shape.nodes == 1, told(tuning.AlgoCollNetChain), told(tuning.AlgoNVLS) || told(tuning.AlgoNVLSTree)
	switch q.coll {
	case policy.CollAllReduce:
		if collNet {
			offer(tuning.AlgoCollNetDirect, tuning.ProtoSimple)
			offer(tuning.AlgoCollNetChain, tuning.ProtoSimple)
		}
		if nvls && (oneNode || collNet) {
			offer(tuning.AlgoNVLS, tuning.ProtoSimple)
		}
		if nvls && !oneNode {
			offer(tuning.AlgoNVLSTree, tuning.ProtoSimple)
		}
	case policy.CollAllGather, policy.CollReduceScatter:
		if nvls && oneNode {
			offer(tuning.AlgoNVLS, tuning.ProtoSimple)
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
	if q.shape.nvl != 0 {
		s += fmt.Sprintf(", nvl_domains %d", q.shape.toldNVLDomains())
	}
	return s
}

// cell is an algorithm and a protocol, as NCCL numbers them.
type cell struct{ algo, proto int }

// noCell is the choice of an NCCL that has nothing to choose from.
var noCell = cell{-1, -1}

func cellOf(c tuning.Choice) cell { return cell{c.Algo, c.Proto} }

func (c cell) String() string {
	if c.algo < 0 {
		return "-"
	}
	return fmt.Sprintf("%s/%s", policy.Algo(c.algo), policy.Proto(c.proto))
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
	by       tuner.DecidedBy

	release   release.Version // of NCCL
	notRaised int             // channels that the policy asks for and that NCCL does not raise its own number to
	abi       int             // version of the tuner ABI that the plugin was asked by
}

// firstABIWithChunks is the first version of the tuner ABI that asks for chunk sizes.
const firstABIWithChunks = 6

// keepLower drops a channel count that NCCL does not raise its own to, where that is so.
func (o *outcome) keepLower(own int) {
	if o.release.Has(release.ChannelsOnlyLower) && o.channels > own {
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
	case o.by.Row > 0:
		return fmt.Sprintf("%s:%d", d.policy, o.by.Row)
	case o.by.Model:
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
		words = append(words, "chunks of "+policy.FormatBytes(uint64(o.chunk)))
	}
	return strings.Join(words, ", ")
}
