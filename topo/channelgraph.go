package topo

import "slices"

// ChannelGraph is the outcome of NCCL's channel search for one pattern: how many channels fit on a system and how
// fast each is. Field names in JSON are those of NCCL's own structure.
type ChannelGraph struct {
	ID           int     `json:"id"`      // 0 ring, 1 tree, 2 CollNet chain, 3 NVLS, 4 CollNet direct
	Pattern      string  `json:"pattern"` // one of the Pattern constants
	CrossNIC     int     `json:"crossNic"`
	NChannels    int     `json:"nChannels"`    // 0: not searched or not found
	BwIntra      float32 `json:"bwIntra"`      // GB/s per channel between GPUs of a node
	BwInter      float32 `json:"bwInter"`      // GB/s per channel between a GPU and its NIC
	LatencyInter float32 `json:"latencyInter"` // microseconds that the NIC adds
	TypeIntra    string  `json:"typeIntra"`    // worst path type between GPUs, "NVL", "PIX", ...
	TypeInter    string  `json:"typeInter"`    // worst path type between a GPU and its NIC
	SameChannels int     `json:"sameChannels"` // 1 when all channels are alike
	NHops        int     `json:"nHops"`
	MinChannels  int     `json:"minChannels"`
	MaxChannels  int     `json:"maxChannels"`

	Intra [][]int   `json:"intra,omitempty"` // per channel the GPUs (ranks) in order
	Inter [][]int64 `json:"inter,omitempty"` // per channel the ids of the NICs at both ends
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

// pathTypeNames are NCCL's path types from best to worst (NCCL 2.30.7, graph.h and topo.cc).
var pathTypeNames = []string{"LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS"}

// pathRank is the place of a path type from best (0) to worst. The empty string is that of a graph not searched for.
func pathRank(name string) int {
	if name == "" {
		return 0
	}
	if i := slices.Index(pathTypeNames, name); i >= 0 {
		return i
	}
	return len(pathTypeNames)
}
