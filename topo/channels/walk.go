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

// walk is one attempt: a depth-first search for channels under the limits of graph. Each function claims the bandwidth
// of a path, goes on, and gives the bandwidth back when it returns. So when a walk ends, the links are as before, but
// for rounding. A solution is copied to best, which is that of all attempts, when it is found.
type walk struct {
	*searchSystem
	graph *searchGraph
	best  *searchGraph
	steps *int // left; -1 once a perfect solution is found
}

// goals say how one channel goes on.
type goals struct {
	backToNet, backToFirst int // the step after which it returns to the network, and to its first GPU; -1: never
	order                  int // how it chooses the next GPU
}

// run looks for channels and returns what is left of the steps, -1 for a perfect solution.
func (s *searchSystem) run(graph, best *searchGraph, steps int) int {
	w := walk{searchSystem: s, graph: graph, best: best, steps: &steps}
	w.nextChannel()
	return steps
}

func (w *walk) nextChannel() {
	last := len(w.gpus) - 1
	if w.Inter {
		goal := goals{backToNet: 0, backToFirst: -1}
		if w.graph.Pattern == PatternRing {
			goal.backToNet = last
		}
		w.fromNets(goal)
		return
	}
	goal := goals{backToNet: -1, backToFirst: -1}
	if w.graph.Pattern == PatternRing {
		goal.backToFirst = last
	}
	switch {
	case w.graph.Pattern == PatternNVLS:
		if w.graph.NChannels < len(w.gpus) {
			w.start(w.graph.NChannels, goal, orderFree)
		}
		return
	case w.graph.NChannels == 0:
		w.start(0, goal, orderPCI)
	default:
		w.start(w.previous(0), goal, orderReplay)
	}
	if !w.graph.same || w.graph.NChannels == 0 {
		for g := range w.gpus {
			w.start(g, goal, orderFree)
		}
	}
}

// previous is the GPU at a place of the channel before.
func (w *walk) previous(place int) int {
	return w.byRank(w.graph.Intra[w.graph.NChannels-1][place])
}

func (w *walk) byRank(rank int) int {
	return slices.IndexFunc(w.gpus, func(g searchGPU) bool { return g.rank == rank })
}

// start begins a channel at GPU g, which a NIC has led to if there are several nodes.
func (w *walk) start(g int, goal goals, order int) {
	goal.order = order
	w.enter(g, 0, goal)
}

// enter visits a GPU. Meanwhile the GPU is marked as used, so that the current channel passes it once.
func (w *walk) enter(g, step int, goal goals) {
	flag := uint64(1) << w.graph.NChannels
	w.gpus[g].used ^= flag
	w.visit(g, step, goal)
	w.gpus[g].used ^= flag
}

// use takes the bandwidth of a channel from a path. It reports false, and takes nothing, if the path's type is worse
// than the limit or a link has too little left. share multiplies the bandwidth: it is not 1 where a channel uses a path
// in part or twice, and a negative share gives back. intra says that the traffic is between GPUs, not to the network.
// back is the path the other way.
func (w *walk) use(p, back *searchPath, fromGPU, intra bool, share float32) bool {
	g := w.graph
	bw, worst := g.BWInter, g.TypeInter
	if intra {
		bw, worst = g.BWIntra, g.TypeIntra
	}
	if p.kind >= topo.PathDIS {
		return false
	}
	if share == 1 {
		if p.kind > worst {
			return false
		}
		if (g.Pattern == PatternBalancedTree || g.Pattern == PatternTree) && back.kind > worst {
			return false
		}
	}
	bw *= share
	if done := w.take(p, fromGPU, len(p.links), bw); done < len(p.links) {
		w.take(p, fromGPU, done, -bw)
		return false
	}
	g.NHops = int(float32(g.NHops) + share*float32(len(p.links)))
	return true
}

func (w *walk) useGPUs(from, to int, share float32) bool {
	return w.use(&w.gpuGPU[from][to], &w.gpuGPU[to][from], true, true, share)
}

func (w *walk) useToNet(g, n int, share float32) bool {
	return w.use(&w.gpuNet[g][n], &w.netGPU[n][g], true, false, share)
}

func (w *walk) useFromNet(n, g int, share float32) bool {
	return w.use(&w.netGPU[n][g], &w.gpuNet[g][n], false, false, share)
}

func (w *walk) useFromSwitch(g int, share float32) bool {
	return w.use(&w.nvsGPU[g], &w.gpuNVS[g], false, true, share)
}

func (w *walk) useToSwitch(g int, share float32) bool {
	return w.use(&w.gpuNVS[g], &w.nvsGPU[g], true, true, share)
}

// visit continues the current channel, which has reached GPU g as its step-th.
func (w *walk) visit(g, step int, goal goals) {
	if *w.steps <= 0 {
		return
	}
	*w.steps--
	w.graph.Intra[w.graph.NChannels][step] = w.gpus[g].rank
	switch {
	case step == goal.backToNet:
		w.backToNet(g, step, goal)
	case w.graph.Pattern == PatternNVLS:
		w.throughSwitch(g)
	case w.graph.Pattern == PatternCollNetDirect:
		w.toAllPeers(g)
	case step < len(w.gpus)-1:
		for _, next := range w.candidates(g, step, goal) {
			if w.useGPUs(g, next, 1) {
				w.enter(next, step+1, goal)
				w.useGPUs(g, next, -1)
			}
		}
	case step == goal.backToFirst:
		first := w.byRank(w.graph.Intra[w.graph.NChannels][0])
		if w.useGPUs(g, first, 1) {
			w.complete()
			w.useGPUs(g, first, -1)
		}
	default:
		w.complete()
	}
}

// complete takes one more step: it counts the channel, keeps the solution if it is better, and goes on to the next
// channel.
func (w *walk) complete() {
	if *w.steps <= 0 {
		return
	}
	*w.steps--
	g := w.graph
	g.NChannels++
	if g.beats(w.best, len(w.gpus)) {
		w.best.copyFrom(g)
		if g.NChannels == g.MaxChannels {
			*w.steps = -1
		}
	}
	if g.NChannels < g.MaxChannels {
		w.nextChannel()
	}
	g.NChannels--
}

// throughSwitch charges GPU g as the head of an NVLS channel: every GPU sends to and receives from the switch, the
// head twice.
func (w *walk) throughSwitch(head int) {
	share := func(g int) float32 {
		if g == head {
			return 2
		}
		return 1
	}
	w.useAll(w.useFromSwitch, share, func() {
		w.useAll(w.useToSwitch, share, w.complete)
	})
}

// toAllPeers charges GPU g as a head of CollNetDirect: it exchanges an equal share with each other GPU.
func (w *walk) toAllPeers(head int) {
	share := func(int) float32 { return 1 / float32(len(w.gpus)-1) }
	out := func(g int, share float32) bool { return w.useGPUs(head, g, share) }
	in := func(g int, share float32) bool { return w.useGPUs(g, head, share) }
	w.useAll(out, share, func() {
		w.useAll(in, share, func() {
			channel := w.graph.Intra[w.graph.NChannels]
			place := 1
			for g := range w.gpus {
				if g != head {
					channel[place] = w.gpus[g].rank
					place++
				}
			}
			w.complete()
		})
	})
}

// useAll takes a share of a path for each GPU. If all have it, it goes on, and then gives the shares back.
func (w *walk) useAll(use func(g int, share float32) bool, share func(g int) float32, goOn func()) {
	used := 0
	for used < len(w.gpus) && use(used, share(used)) {
		used++
	}
	if used == len(w.gpus) {
		goOn()
	}
	for used--; used >= 0; used-- {
		use(used, -share(used))
	}
}
