package channels

import (
	"errors"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

var errNoRank = errors.New("no GPU with a rank")

// graphs finds the channels that NCCL would use on a system (graph/search.cc): ring and tree, and NVLS and CollNet
// where they are possible.
//
// NCCL's search is cut off by a number of steps, not by time, so the answer is the same everywhere. The order of the
// graphs is NCCL's: the tree has as many channels as the ring, and each graph sees the rounding errors of those
// before it.
func (m *system) graphs(opt TuneOptions) (*Graphs, error) {
	m.crossNIC = opt.Variables.CrossNIC
	var graphs Graphs
	gpus, most := len(m.gpus), maxChannels(m.NCCL)
	find := func(into *Graph, g *Graph) error {
		err := m.search(g)
		*into = g.result(m.Inter)
		return err
	}
	if err := find(&graphs.Ring, newGraph(0, PatternRing, gpus, 1, most/2)); err != nil {
		return nil, err
	}
	n := graphs.Ring.NChannels
	if err := find(&graphs.Tree, newGraph(1, PatternBalancedTree, gpus, n, n)); err != nil {
		return nil, err
	}
	if opt.CollNet {
		chain, direct := newGraph(2, PatternTree, gpus, n, n), newGraph(4, PatternCollNetDirect,
			gpus, 1, most)
		chain.collNet, direct.collNet = true, true
		if err := errors.Join(find(&graphs.CollNetChain, chain), find(&graphs.CollNetDirect, direct)); err != nil {
			return nil, err
		}
	}
	nvls := newGraph(3, PatternNVLS, gpus, 1, most)
	if !opt.canNVLS(m.System) {
		graphs.NVLS = nvls.result(m.Inter)
		return &graphs, nil
	}
	return &graphs, find(&graphs.NVLS, nvls)
}

// Graph is the outcome of NCCL's channel search for one pattern: how many channels fit on a system and how
// fast each is. Field names in JSON are those of NCCL's own structure.
type Graph struct {
	ID           int           `json:"id"`      // 0 ring, 1 tree, 2 CollNet chain, 3 NVLS, 4 CollNet direct
	Pattern      string        `json:"pattern"` // one of the Pattern constants
	CrossNIC     int           `json:"crossNic"`
	NChannels    int           `json:"nChannels"`    // 0: not searched or not found
	BWIntra      float32       `json:"bwIntra"`      // GB/s per channel between GPUs of a node
	BWInter      float32       `json:"bwInter"`      // GB/s per channel between a GPU and its NIC
	LatencyInter float32       `json:"latencyInter"` // microseconds that the NIC adds
	TypeIntra    topo.PathType `json:"typeIntra"`    // worst between GPUs
	TypeInter    topo.PathType `json:"typeInter"`    // worst between a GPU and its NIC
	SameChannels int           `json:"sameChannels"` // 1 when all channels are alike
	NHops        int           `json:"nHops"`
	MinChannels  int           `json:"minChannels"`
	MaxChannels  int           `json:"maxChannels"`

	Intra [][]int     `json:"intra,omitzero"` // per channel the GPUs (ranks) in order
	Inter [][]topo.ID `json:"inter,omitzero"` // per channel the ids of the NICs at both ends

	// Of a graph that is being searched for.
	collNet bool
	same    bool // all channels must visit the GPUs as the first one does (NCCL's sameChannels)
}

// Patterns of a channel graph.
const (
	PatternRing          = "RING"
	PatternTree          = "TREE"          // one GPU talks to the network
	PatternBalancedTree  = "BALANCED_TREE" // two GPUs do: parent and one child, other child
	PatternNVLS          = "NVLS"
	PatternCollNetDirect = "COLLNET_DIRECT"
)

// Graphs are the graphs of one communicator. A zero graph is one that NCCL did not search for.
type Graphs struct {
	Ring          Graph `json:"ring,omitzero"`
	Tree          Graph `json:"tree,omitzero"`
	CollNetChain  Graph `json:"collnetChain,omitzero"`
	CollNetDirect Graph `json:"collnetDirect,omitzero"`
	NVLS          Graph `json:"nvls,omitzero"`
}

// byAlgo returns the graph each algorithm runs on. Ring and tree use the same number of channels, the smaller one.
func (g Graphs) byAlgo() [nccl.NumAlgos]Graph {
	n := min(g.Ring.NChannels, g.Tree.NChannels)
	g.Ring.NChannels, g.Tree.NChannels = n, n
	return [nccl.NumAlgos]Graph{
		nccl.AlgoTree: g.Tree, nccl.AlgoRing: g.Ring, nccl.AlgoCollNetDirect: g.CollNetDirect,
		nccl.AlgoCollNetChain: g.CollNetChain,
		nccl.AlgoNVLS:         g.NVLS, nccl.AlgoNVLSTree: g.NVLS, nccl.AlgoPAT: g.Tree,
	}
}
