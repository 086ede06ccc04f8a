package channels

import (
	"errors"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

var errNoRank = errors.New("no GPU with a rank")

// searchOptions say which graphs a communicator needs. All ranks must agree on them.
type searchOptions struct {
	NVLS    bool         // the GPUs can multicast, see topo.System.CanMultimem
	CollNet bool         // in-network collectives are wanted; only ports with Net.Coll count
	NetDevs topo.NetDevs // as in Settings

	CrossNIC topo.Toggle // as in Variables
}

// searchGraphs finds the channels that NCCL would use on this system (graph/search.cc), in the release that the system was built
// for: ring and tree, NVLS and CollNet if asked for. Paths must have been computed and the system trimmed, see topo.System.Init; whether the communicator
// goes beyond the system is topo.System.Inter. The system is not changed.
//
// NCCL's search is cut off by a number of steps, not by time, so the answer is the same everywhere.
func searchGraphs(sys *topo.System, opt searchOptions) (*Graphs, error) {
	if len(sys.Nodes[topo.NodeGPU]) == 0 {
		return nil, errNoRank
	}
	work, err := newSearchSystem(sys, opt.NetDevs)
	if err != nil {
		return nil, err
	}
	work.crossNIC = opt.CrossNIC
	return work.searchAll(opt)
}

// searchAll finds all graphs of a communicator in NCCL's order: the tree has as many channels as the ring, and each graph
// sees the rounding errors of those before it.
func (s *searchSystem) searchAll(opt searchOptions) (*Graphs, error) {
	var graphs Graphs
	gpus := len(s.gpus)
	find := func(id int, g *searchGraph, into *Graph) error {
		err := s.search(g)
		*into = g.result(s, id)
		return err
	}
	if err := find(0, newSearchGraph(PatternRing, gpus, 1, maxChannels(s.nccl)/2), &graphs.Ring); err != nil {
		return nil, err
	}
	n := graphs.Ring.NChannels
	if err := find(1, newSearchGraph(PatternBalancedTree, gpus, n, n), &graphs.Tree); err != nil {
		return nil, err
	}
	if opt.CollNet {
		chain, direct := newSearchGraph(PatternTree, gpus, n, n), newSearchGraph(PatternCollNetDirect, gpus, 1, maxChannels(s.nccl))
		chain.collNet, direct.collNet = true, true
		if err := errors.Join(find(2, chain, &graphs.CollNetChain), find(4, direct, &graphs.CollNetDirect)); err != nil {
			return nil, err
		}
	}
	nvls := newSearchGraph(PatternNVLS, gpus, 1, maxChannels(s.nccl))
	graphs.NVLS = nvls.result(s, 3) // what NCCL has when it does not search
	if opt.NVLS {
		if err := find(3, nvls, &graphs.NVLS); err != nil {
			return nil, err
		}
	}
	return &graphs, nil
}
