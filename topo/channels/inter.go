package channels

import (
	"math"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// fromNets begins a channel at each NIC in turn.
func (w *walk) fromNets(goal goals) {
	g := w.graph
	nets := w.selectNets(g.TypeInter, -1)
	bw := float32(int(g.BWInter)) // NCCL counts a NIC's bandwidth in whole GB/s here
	heads := g.Pattern == PatternNVLS || g.Pattern == PatternCollNetDirect
	found := false
	for i := range nets {
		if heads && found {
			break
		}
		n := nets[(g.NChannels+i)%len(nets)]
		net := &w.nets[n]
		if g.collNet && !net.Coll || net.free < bw {
			continue
		}
		if g.alternates(w.NCCL) && g.NChannels%2 == 1 && net.id != g.Inter[g.NChannels-1][1] {
			continue
		}
		g.Inter[g.NChannels][0] = net.id
		g.LatencyInter = float32(net.Latency)
		w.reserve(n, bw)
		reachable := true
		switch {
		case heads:
			if g.NChannels < len(nets) && w.newHead(net.LocalGPU) {
				w.startFromNet(n, net.LocalGPU, goal, orderFree)
				found = true
			}
		case !w.NCCL.Has(nccl.NICsOwnGPU):
			w.startNearest(n, goal)
		case g.NChannels > 0 && g.same:
			w.startFromNet(n, w.previous(0), goal, orderReplay)
		default:
			reachable = w.startNear(n, goal)
		}
		// NCCL does not give back the bandwidth of a NIC that reaches no GPU.
		if reachable {
			w.reserve(n, -bw)
		}
	}
}

// newHead reports whether a GPU is not yet the head of a channel.
func (w *walk) newHead(gpu int) bool {
	if gpu < 0 {
		return false
	}
	for c := range w.graph.NChannels {
		if w.graph.Intra[c][0] == w.gpus[gpu].rank {
			return false
		}
	}
	return true
}

// startInOrder tries a first channel from NIC n through the GPUs as enumerated. NCCL gives this try steps of its own.
func (w *walk) startInOrder(n int, goal goals) {
	if w.graph.NChannels > 0 || w.hasNVS() {
		return
	}
	steps := searchStepsPCI
	reference := walk{searchSystem: w.searchSystem, graph: w.graph, best: w.best, steps: &steps}
	reference.startFromNet(n, 0, goal, orderPCI)
	if steps == -1 {
		*w.steps = -1
	}
}

// startNearest begins a channel at NIC n by the rules before nccl.NICsOwnGPU. It tries the order of the previous
// channel. If channels may differ, it also tries each GPU that has the widest path, and of these the shortest.
func (w *walk) startNearest(n int, goal goals) {
	g := w.graph
	if g.NChannels > 0 {
		w.startFromNet(n, w.previous(0), goal, orderReplay)
	}
	if g.NChannels > 0 && g.same {
		return
	}
	w.startInOrder(n, goal)
	var widest float32
	shortest := math.MaxInt
	for _, p := range w.netGPU[n] {
		switch {
		case p.bw > widest:
			widest, shortest = p.bw, len(p.links)
		case p.bw == widest && len(p.links) > 0 && len(p.links) < shortest:
			shortest = len(p.links)
		}
	}
	if widest < float32(int(g.BWInter)) {
		return
	}
	for i := range w.gpus {
		gpu := (g.NChannels + i) % len(w.gpus)
		if p := w.netGPU[n][gpu]; p.bw == widest && len(p.links) == shortest {
			w.startFromNet(n, gpu, goal, orderFree)
		}
	}
}

// startNear begins a channel at NIC n with the GPUs close to it. It reports whether there are any.
func (w *walk) startNear(n int, goal goals) bool {
	w.startInOrder(n, goal)
	local := w.nets[n].LocalGPU
	if local != -1 {
		w.startFromNet(n, local, goal, orderFree)
	}
	near := w.Nearest(w.Nodes[topo.NodeNET][n], topo.NodeGPU)
	if len(near) == 0 || w.netGPU[n][near[0].Index].kind == topo.PathDIS {
		return false
	}
	for _, g := range near {
		if g.Index != local {
			w.startFromNet(n, g.Index, goal, orderFree)
		}
	}
	return true
}

func (w *walk) startFromNet(n, g int, goal goals, order int) {
	if w.useFromNet(n, g, 1) {
		w.start(g, goal, order)
		w.useFromNet(n, g, -1)
	}
}

// backToNet returns from GPU g to a NIC before the channel goes on. A balanced tree does so twice, from the first
// two GPUs, with half of the bandwidth each.
func (w *walk) backToNet(g, step int, goal goals) {
	graph := w.graph
	start := w.netIndex(graph.Inter[graph.NChannels][0])
	full := graph.BWInter
	next := goals{backToNet: -1, backToFirst: goal.backToFirst, order: goal.order}
	part := full
	if graph.Pattern == PatternBalancedTree {
		part /= 2
		if step == 0 {
			next.backToNet = 1
		}
	}
	for _, n := range w.selectNets(graph.TypeInter, g) {
		if !w.mayReturn(graph, start, n, step) {
			continue
		}
		graph.BWInter = part
		ok := w.useToNet(g, n, 1)
		graph.BWInter = full
		if !ok {
			continue
		}
		graph.Inter[graph.NChannels][1] = w.nets[n].id
		w.visit(g, step, next)
		graph.BWInter = part
		w.useToNet(g, n, -1)
		graph.BWInter = full
	}
}
