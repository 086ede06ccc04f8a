package channels

import (
	"errors"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

var errNoRank = errors.New("no GPU with a rank")

// searchOptions say which graphs a communicator needs. All ranks must agree on them.
type searchOptions struct {
	NVLS     bool        // the GPUs can multicast, see topo.System.CanMultimem
	CollNet  bool        // in-network collectives are wanted; only ports with Net.Coll count
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
	work, err := newSearchSystem(sys)
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
	gpus, most := len(s.gpus), maxChannels(s.nccl)
	find := func(into *Graph, g *searchGraph) error {
		err := s.search(g)
		*into = g.result(s.inter)
		return err
	}
	if err := find(&graphs.Ring, newSearchGraph(0, PatternRing, gpus, 1, most/2)); err != nil {
		return nil, err
	}
	n := graphs.Ring.NChannels
	if err := find(&graphs.Tree, newSearchGraph(1, PatternBalancedTree, gpus, n, n)); err != nil {
		return nil, err
	}
	if opt.CollNet {
		chain, direct := newSearchGraph(2, PatternTree, gpus, n, n), newSearchGraph(4, PatternCollNetDirect, gpus, 1, most)
		chain.collNet, direct.collNet = true, true
		if err := errors.Join(find(&graphs.CollNetChain, chain), find(&graphs.CollNetDirect, direct)); err != nil {
			return nil, err
		}
	}
	nvls := newSearchGraph(3, PatternNVLS, gpus, 1, most)
	if !opt.NVLS {
		graphs.NVLS = nvls.result(s.inter)
		return &graphs, nil
	}
	return &graphs, find(&graphs.NVLS, nvls)
}
