package topo

import "errors"

var errNoRank = errors.New("no GPU with a rank")

// SearchOptions say which graphs a communicator needs. All ranks must agree on them.
type SearchOptions struct {
	NVLS    bool    // the GPUs can multicast, see System.HasMulticast
	CollNet bool    // in-network collectives are wanted; only ports with Net.Coll count
	NetDevs NetDevs // as in Settings
}

// SearchChannels finds the channels that NCCL 2.30.7 would use on this system (graph/search.cc): ring and tree, NVLS and
// CollNet if asked for. Paths must have been computed and the system trimmed, see System.Init; whether the communicator
// goes beyond the system is System.Inter. The system is not changed.
//
// NCCL's search is cut off by a number of steps, not by time, so the answer is the same everywhere.
func (s *System) SearchChannels(opt SearchOptions) (*ChannelGraphs, error) {
	if len(s.Nodes[NodeGPU]) == 0 {
		return nil, errNoRank
	}
	work, err := newSearchSystem(s, opt.NetDevs)
	if err != nil {
		return nil, err
	}
	graphs := work.searchAll(opt)
	return &graphs, nil
}

// HasMulticast says whether NVLS can be expected: GPUs of Hopper or later on NVSwitch. NCCL asks the driver.
func (s *System) HasMulticast() bool {
	return len(s.Nodes[NodeNVS]) > 0 && len(s.Nodes[NodeGPU]) > 1 && s.minSM() >= 90
}

// searchAll finds all graphs of a communicator in NCCL's order.
func (s *searchSystem) searchAll(want SearchOptions) ChannelGraphs {
	var graphs ChannelGraphs
	gpus := len(s.gpus)
	ring := newSearchGraph(PatternRing, gpus, 1, maxChannels/2)
	s.search(ring)
	graphs.Ring = ring.result(s, 0)
	n := ring.channels
	tree := newSearchGraph(PatternBalancedTree, gpus, n, n)
	s.search(tree)
	graphs.Tree = tree.result(s, 1)
	if want.CollNet {
		chain := newSearchGraph(PatternTree, gpus, n, n)
		chain.collNet = true
		s.search(chain)
		graphs.CollNetChain = chain.result(s, 2)
		direct := newSearchGraph(PatternCollNetDirect, gpus, 1, maxChannels)
		direct.collNet = true
		s.search(direct)
		graphs.CollNetDirect = direct.result(s, 4)
	}
	nvls := newSearchGraph(PatternNVLS, gpus, 1, maxChannels)
	if want.NVLS {
		s.search(nvls)
	}
	graphs.NVLS = nvls.result(s, 3)
	return graphs
}
