package topo

import (
	"encoding/json"
	"fmt"
)

// ChannelGraph is the outcome of NCCL's channel search for one pattern: how many channels fit on a system and how
// fast each is. Field names in JSON are those of NCCL's own structure.
type ChannelGraph struct {
	ID           int      `json:"id"`      // 0 ring, 1 tree, 2 CollNet chain, 3 NVLS, 4 CollNet direct
	Pattern      string   `json:"pattern"` // one of the Pattern constants
	CrossNIC     int      `json:"crossNic"`
	NChannels    int      `json:"nChannels"`    // 0: not searched or not found
	BWIntra      float32  `json:"bwIntra"`      // GB/s per channel between GPUs of a node
	BWInter      float32  `json:"bwInter"`      // GB/s per channel between a GPU and its NIC
	LatencyInter float32  `json:"latencyInter"` // microseconds that the NIC adds
	TypeIntra    PathType `json:"typeIntra"`    // worst between GPUs
	TypeInter    PathType `json:"typeInter"`    // worst between a GPU and its NIC
	SameChannels int      `json:"sameChannels"` // 1 when all channels are alike
	NHops        int      `json:"nHops"`
	MinChannels  int      `json:"minChannels"`
	MaxChannels  int      `json:"maxChannels"`

	Intra [][]int `json:"intra,omitzero"` // per channel the GPUs (ranks) in order
	Inter [][]ID  `json:"inter,omitzero"` // per channel the ids of the NICs at both ends
}

// MarshalJSON writes bandwidths with nine digits, see Float32.
func (g ChannelGraph) MarshalJSON() ([]byte, error) {
	type plain ChannelGraph
	return json.Marshal(struct {
		plain
		BWIntra      Float32 `json:"bwIntra"`
		BWInter      Float32 `json:"bwInter"`
		LatencyInter Float32 `json:"latencyInter"`
	}{plain(g), Float32(g.BWIntra), Float32(g.BWInter), Float32(g.LatencyInter)})
}

// Patterns of a channel graph.
const (
	PatternRing          = "RING"
	PatternTree          = "TREE"          // one GPU talks to the network
	PatternBalancedTree  = "BALANCED_TREE" // two GPUs do: parent and one child, other child
	PatternSplitTree     = "SPLIT_TREE"    // two GPUs do: parent, children
	PatternNVLS          = "NVLS"
	PatternCollNetDirect = "COLLNET_DIRECT"
)

// ChannelGraphs are the graphs of one communicator. A zero graph is one that NCCL did not search for.
type ChannelGraphs struct {
	Ring          ChannelGraph `json:"ring"`
	Tree          ChannelGraph `json:"tree"`
	CollNetChain  ChannelGraph `json:"collnetChain"`
	CollNetDirect ChannelGraph `json:"collnetDirect"`
	NVLS          ChannelGraph `json:"nvls"`
}

// byAlgo returns the graph each algorithm runs on. Ring and tree use the same number of channels, the smaller one.
func (g ChannelGraphs) byAlgo() [NumAlgos]ChannelGraph {
	n := min(g.Ring.NChannels, g.Tree.NChannels)
	g.Ring.NChannels, g.Tree.NChannels = n, n
	return [NumAlgos]ChannelGraph{
		AlgoTree: g.Tree, AlgoRing: g.Ring, AlgoCollNetDirect: g.CollNetDirect, AlgoCollNetChain: g.CollNetChain,
		AlgoNVLS: g.NVLS, AlgoNVLSTree: g.NVLS, AlgoPAT: g.Tree,
	}
}

// MarshalText and UnmarshalText use NCCL's names.
func (t PathType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

func (t *PathType) UnmarshalText(text []byte) error {
	for k, name := range pathTypeNames {
		if name == string(text) {
			*t = PathType(k)
			return nil
		}
	}
	return fmt.Errorf("unknown path type %q (known: %v)", text, pathTypeNames)
}
