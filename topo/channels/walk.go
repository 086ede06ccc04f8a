package channels

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// Steps that one attempt may take. NCCL counts steps, not time, so results do not depend on the machine.
// Source: NCCL 2.30.7, graph/search.cc.
const (
	searchSteps     = 1 << 14
	searchStepsSame = 1 << 8  // when all channels must be alike
	searchStepsPCI  = 1 << 10 // for the first try in PCI order
	searchStepsAll  = 1 << 19 // for all attempts together
)

// How the next GPU of a channel is chosen.
const (
	orderFree   = iota
	orderPCI    // as enumerated
	orderReplay // as in the channel before
)

// A walk is one attempt: a depth-first search for channels under the limits of try. Each function claims the bandwidth
// of a path, goes on, and gives the bandwidth back when it returns. So when a walk ends, the links are as before, but
// for rounding. A solution is copied to best, which is that of all attempts, when it is found.

// goals say how one channel goes on.
type goals struct {
	backToNet, backToFirst int // the step after which it returns to the network, and to its first GPU; -1: never
	order                  int // how it chooses the next GPU
}

func (s *search) nextChannel() {
	last := len(s.gpus) - 1
	if s.Inter {
		goal := goals{backToNet: 0, backToFirst: -1}
		if s.try.Pattern == PatternRing {
			goal.backToNet = last
		}
		s.fromNets(goal)
		return
	}
	goal := goals{backToNet: -1, backToFirst: -1}
	if s.try.Pattern == PatternRing {
		goal.backToFirst = last
	}
	switch {
	case s.try.Pattern == PatternNVLS:
		if s.try.NChannels < len(s.gpus) {
			s.start(s.gpus[s.try.NChannels], goal, orderFree)
		}
		return
	case s.try.NChannels == 0:
		s.start(s.gpus[0], goal, orderPCI)
	default:
		s.start(s.previous(0), goal, orderReplay)
	}
	if !s.try.same || s.try.NChannels == 0 {
		for _, g := range s.gpus {
			s.start(g, goal, orderFree)
		}
	}
}

// previous is the GPU at a place of the channel before.
func (s *search) previous(place int) *topo.Node {
	return s.byRank(s.try.Intra[s.try.NChannels-1][place])
}

func (s *search) byRank(rank int) *topo.Node {
	return s.gpus[slices.IndexFunc(s.gpus, func(g *topo.Node) bool { return g.GPU.Rank == rank })]
}

// start begins a channel at GPU g, which a NIC has led to if there are several nodes.
func (s *search) start(g *topo.Node, goal goals, order int) {
	goal.order = order
	s.enter(g, 0, goal)
}

// enter visits a GPU. Meanwhile the GPU is marked as used, so that the current channel passes it once.
func (s *search) enter(g *topo.Node, step int, goal goals) {
	flag := uint64(1) << s.try.NChannels
	s.used[g.Index] ^= flag
	s.visit(g, step, goal)
	s.used[g.Index] ^= flag
}

// use takes the bandwidth of a channel from the path of two nodes. It reports false, and takes nothing, if the path's
// type is worse than the limit or a link has too little left. share multiplies the bandwidth: it is not 1 where a
// channel uses a path in part or twice, and a negative share gives back.
func (s *search) use(from, to *topo.Node, share float32) bool {
	g, p := s.try, s.Path(from, to)
	bw, worst := g.BWIntra, g.TypeIntra
	if from.Net != nil || to.Net != nil {
		bw, worst = g.BWInter, g.TypeInter
	}
	if p.Type >= topo.PathDIS {
		return false
	}
	if share == 1 {
		if p.Type > worst {
			return false
		}
		if (g.Pattern == PatternBalancedTree || g.Pattern == PatternTree) && s.Path(to, from).Type > worst {
			return false
		}
	}
	bw *= share
	if done := take(from, &p, len(p.Links), bw); done < len(p.Links) {
		take(from, &p, done, -bw)
		return false
	}
	g.NHops = int(float32(g.NHops) + share*float32(len(p.Links)))
	return true
}

// visit continues the current channel, which has reached GPU g as its step-th.
func (s *search) visit(g *topo.Node, step int, goal goals) {
	if s.steps <= 0 {
		return
	}
	s.steps--
	s.try.Intra[s.try.NChannels][step] = g.GPU.Rank
	switch {
	case step == goal.backToNet:
		s.backToNet(g, step, goal)
	case s.try.Pattern == PatternNVLS:
		s.throughSwitch(g)
	case s.try.Pattern == PatternCollNetDirect:
		s.toAllPeers(g)
	case step < len(s.gpus)-1:
		for _, next := range s.candidates(g, step, goal) {
			if s.use(g, next, 1) {
				s.enter(next, step+1, goal)
				s.use(g, next, -1)
			}
		}
	case step == goal.backToFirst:
		first := s.byRank(s.try.Intra[s.try.NChannels][0])
		if s.use(g, first, 1) {
			s.complete()
			s.use(g, first, -1)
		}
	default:
		s.complete()
	}
}

// complete takes one more step: it counts the channel, keeps the solution if it is better, and goes on to the next
// channel.
func (s *search) complete() {
	if s.steps <= 0 {
		return
	}
	s.steps--
	g := s.try
	g.NChannels++
	if g.beats(s.best, len(s.gpus)) {
		s.best.copyFrom(g)
		if g.NChannels == g.MaxChannels {
			s.steps = -1
		}
	}
	if g.NChannels < g.MaxChannels {
		s.nextChannel()
	}
	g.NChannels--
}

// throughSwitch charges GPU g as the head of an NVLS channel: every GPU sends to and receives from the switch, the
// head twice.
func (s *search) throughSwitch(head *topo.Node) {
	share := func(g *topo.Node) float32 {
		if g == head {
			return 2
		}
		return 1
	}
	nvs := s.Nodes[topo.NodeNVS][0]
	in := func(g *topo.Node, sign float32) bool { return s.use(nvs, g, sign*share(g)) }
	out := func(g *topo.Node, sign float32) bool { return s.use(g, nvs, sign*share(g)) }
	s.useAll(in, func() { s.useAll(out, s.complete) })
}

// toAllPeers charges GPU g as a head of CollNetDirect: it exchanges an equal share with each other GPU.
func (s *search) toAllPeers(head *topo.Node) {
	share := 1 / float32(len(s.gpus)-1)
	out := func(g *topo.Node, sign float32) bool { return s.use(head, g, sign*share) }
	in := func(g *topo.Node, sign float32) bool { return s.use(g, head, sign*share) }
	s.useAll(out, func() {
		s.useAll(in, func() {
			channel := s.try.Intra[s.try.NChannels][:1]
			for _, g := range s.gpus {
				if g != head {
					channel = append(channel, g.GPU.Rank)
				}
			}
			s.complete()
		})
	})
}

// useAll takes a share of a path for each GPU. If all have it, it goes on, and then gives the shares back.
func (s *search) useAll(use func(g *topo.Node, sign float32) bool, goOn func()) {
	used := 0
	for used < len(s.gpus) && use(s.gpus[used], 1) {
		used++
	}
	if used == len(s.gpus) {
		goOn()
	}
	for used--; used >= 0; used-- {
		use(s.gpus[used], -1)
	}
}
