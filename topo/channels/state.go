package channels

import (
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// searchGraph is a set of channels under construction, with the limits that the current attempt works under.
type searchGraph struct {
	pattern  string
	collNet  bool
	crossNIC int
	same     bool // all channels must follow the first one

	minChannels, maxChannels int

	channels             int
	bwIntra, bwInter     float32
	latency              float32
	typeIntra, typeInter topo.PathType
	hops                 int

	intra [nccl.MaxChannels + 1][]int      // per channel the ranks in order
	inter [nccl.MaxChannels + 1][2]topo.ID // per channel the NICs it comes from and goes to
}

func newSearchGraph(pattern string, gpus, minChannels, maxChans int) *searchGraph {
	g := &searchGraph{pattern: pattern, minChannels: minChannels, maxChannels: maxChans}
	for c := range g.intra {
		g.intra[c] = make([]int, gpus)
	}
	return g
}

// copyFrom makes g equal to o without sharing memory, up to the channels that o has.
func (g *searchGraph) copyFrom(o *searchGraph) {
	intra := g.intra
	*g = *o
	g.intra = intra
	for c := range o.channels {
		copy(g.intra[c], o.intra[c])
	}
}

// beats says whether a solution is worth keeping instead of the best one so far.
func (g *searchGraph) beats(best *searchGraph, gpus int) bool {
	if g.channels < g.minChannels {
		return false // ring and tree need the same number of channels
	}
	n, m := float32(g.channels), float32(best.channels)
	if g.pattern == PatternNVLS {
		// Each channel is a GPU that pulls from the switch: the more the better.
		return g.channels > best.channels && g.channels <= gpus || n*g.bwInter > m*best.bwInter
	}
	if n*g.bwIntra != m*best.bwIntra {
		return n*g.bwIntra > m*best.bwIntra
	}
	return g.pattern == best.pattern && g.crossNIC == best.crossNIC && g.hops < best.hops
}

// duplicate uses each channel twice at half the speed where fast links need more than one channel's threads.
func (g *searchGraph) duplicate(minCC int) {
	switch {
	case g.channels == 0, g.pattern == PatternNVLS, g.bwIntra < 25:
		return
	case minCC > 80 && g.bwIntra < 50 && g.channels > 4:
		return
	}
	n := min(2*g.channels, g.maxChannels)
	for c := g.channels; c < n; c++ {
		copy(g.intra[c], g.intra[c-g.channels])
		g.inter[c] = g.inter[c-g.channels]
	}
	share := float32((n + g.channels - 1) / g.channels)
	g.bwIntra /= share
	g.bwInter /= share
	g.channels = n
}

// result turns the finished graph into plain data.
func (g *searchGraph) result(s *searchSystem, id int) Graph {
	r := Graph{
		ID: id, Pattern: g.pattern, CrossNIC: g.crossNIC, NChannels: g.channels,
		BWIntra: g.bwIntra, BWInter: g.bwInter, LatencyInter: g.latency,
		TypeIntra: g.typeIntra, TypeInter: g.typeInter,
		NHops: g.hops, MinChannels: g.minChannels, MaxChannels: g.maxChannels,
	}
	if g.same {
		r.SameChannels = 1
	}
	r.Intra = [][]int{}
	if s.inter {
		r.Inter = [][]topo.ID{}
	}
	for c := range g.channels {
		r.Intra = append(r.Intra, append([]int(nil), g.intra[c]...))
		if s.inter {
			r.Inter = append(r.Inter, []topo.ID{g.inter[c][0], g.inter[c][1]})
		}
	}
	return r
}
