package channels

import (
	"errors"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

var errNoRank = errors.New("no GPU with a rank")

// searchGraphs finds the channels that NCCL would use on this system (graph/search.cc): ring and tree, and NVLS and
// CollNet where they are possible. Paths must have been computed and the system trimmed, see topo.System.Init. The
// system is not changed.
//
// NCCL's search is cut off by a number of steps, not by time, so the answer is the same everywhere. The order of the
// graphs is NCCL's: the tree has as many channels as the ring, and each graph sees the rounding errors of those
// before it.
func searchGraphs(sys *topo.System, opt TuneOptions) (*Graphs, error) {
	if len(sys.Nodes[topo.NodeGPU]) == 0 {
		return nil, errNoRank
	}
	s, err := newSearchSystem(sys)
	if err != nil {
		return nil, err
	}
	s.crossNIC = opt.Variables.CrossNIC
	var graphs Graphs
	gpus, most := len(s.gpus), maxChannels(sys.NCCL)
	find := func(into *Graph, g *searchGraph) error {
		err := s.search(g)
		*into = g.result(sys.Inter)
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
		chain, direct := newSearchGraph(2, PatternTree, gpus, n, n), newSearchGraph(4, PatternCollNetDirect,
			gpus, 1, most)
		chain.collNet, direct.collNet = true, true
		if err := errors.Join(find(&graphs.CollNetChain, chain), find(&graphs.CollNetDirect, direct)); err != nil {
			return nil, err
		}
	}
	nvls := newSearchGraph(3, PatternNVLS, gpus, 1, most)
	if !opt.canNVLS(sys) {
		graphs.NVLS = nvls.result(sys.Inter)
		return &graphs, nil
	}
	return &graphs, find(&graphs.NVLS, nvls)
}
