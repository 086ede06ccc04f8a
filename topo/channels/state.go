package channels

import (
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/internal/cnum"
)

// searchGraph is a graph under construction, with room for all channels and the limits that the current attempt works
// under.
type searchGraph struct {
	Graph
	collNet bool
	same    bool // all channels must follow the first one
}

func newSearchGraph(id int, pattern string, gpus, minChannels, maxChannels int) *searchGraph {
	g := &searchGraph{Graph: Graph{ID: id, Pattern: pattern, MinChannels: minChannels, MaxChannels: maxChannels}}
	for range nccl.MaxChannels + 1 {
		g.Intra, g.Inter = append(g.Intra, make([]int, gpus)), append(g.Inter, make([]topo.ID, 2))
	}
	return g
}

// copyFrom makes g equal to o without sharing memory, up to the channels that o has.
func (g *searchGraph) copyFrom(o *searchGraph) {
	intra, inter := g.Intra, g.Inter
	*g = *o
	g.Intra, g.Inter = intra, inter
	for c := range o.NChannels {
		g.copyChannel(c, o, c)
	}
}

func (g *searchGraph) copyChannel(to int, o *searchGraph, from int) {
	copy(g.Intra[to], o.Intra[from])
	copy(g.Inter[to], o.Inter[from])
}

// beats reports whether a solution is better than the best one so far.
func (g *searchGraph) beats(best *searchGraph, gpus int) bool {
	if g.NChannels < g.MinChannels {
		return false // ring and tree need the same number of channels
	}
	n, m := float32(g.NChannels), float32(best.NChannels)
	if g.Pattern == PatternNVLS {
		// Each channel is a GPU that pulls from the switch: the more the better.
		return g.NChannels > best.NChannels && g.NChannels <= gpus || n*g.BWInter > m*best.BWInter
	}
	if n*g.BWIntra != m*best.BWIntra {
		return n*g.BWIntra > m*best.BWIntra
	}
	return g.Pattern == best.Pattern && g.CrossNIC == best.CrossNIC && g.NHops < best.NHops
}

// duplicate uses each channel twice at half the speed where fast links need more than one channel's threads.
func (g *searchGraph) duplicate(minCC int) {
	switch {
	case g.NChannels == 0, g.Pattern == PatternNVLS, g.BWIntra < 25:
		return
	case minCC > 80 && g.BWIntra < 50 && g.NChannels > 4:
		return
	}
	n := min(2*g.NChannels, g.MaxChannels)
	for c := g.NChannels; c < n; c++ {
		g.copyChannel(c, g, c-g.NChannels)
	}
	share := float32((n + g.NChannels - 1) / g.NChannels)
	g.BWIntra /= share
	g.BWInter /= share
	g.NChannels = n
}

// result is the finished graph.
func (g *searchGraph) result(inter bool) Graph {
	r := g.Graph
	r.SameChannels = cnum.Bit(g.same)
	r.Intra, r.Inter = r.Intra[:r.NChannels], r.Inter[:r.NChannels]
	if !inter {
		r.Inter = nil
	}
	return r
}
