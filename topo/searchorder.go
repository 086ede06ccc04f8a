package topo

import "slices"

// preference ranks the GPUs that could come next in a channel; whole GB/s, as NCCL compares them.
type preference struct {
	gpu      int
	distance int // from the current GPU, in enumeration order

	intraHops, intraBw           int
	interHops, interPCI, interBw int
}

// before says whether a is to be tried before b.
func (a *preference) before(b *preference) bool {
	switch {
	case a.interBw != b.interBw:
		return a.interBw > b.interBw
	case a.interPCI != b.interPCI:
		return a.interPCI > b.interPCI
	case a.interHops != b.interHops:
		return a.interHops < b.interHops
	case a.intraBw != b.intraBw:
		return a.intraBw > b.intraBw
	case a.intraHops != b.intraHops:
		return a.intraHops < b.intraHops
	}
	return a.distance < b.distance
}

// candidates lists the GPUs to try after g, best first. What is tried first decides what is found, because the
// search is cut off by its steps. The list lies on top of w.order; the caller takes it off.
func (w *walk) candidates(g, step int, goal goals) []int {
	held := len(w.order)
	switch goal.order {
	case orderPCI:
		w.order = append(w.order, step+1)
		return w.order[held:]
	case orderReplay:
		w.order = append(w.order, w.previous(step+1))
		return w.order[held:]
	}
	if w.nvs > 0 {
		return w.neighbours(g)
	}
	n := len(w.gpus)
	flag := uint64(1) << w.graph.channels
	var toNet []searchPath
	if goal.backToNet != -1 {
		// The channel has to end near the NIC it came from.
		toNet = w.netGPU[w.netIndex(w.graph.inter[w.graph.channels][0])]
	}
	scores := w.scores[:0]
	for i := 1; i < n; i++ {
		next := (g + i) % n
		p := &w.gpuGPU[g][next]
		if len(p.links) == 0 || w.gpus[next].used&flag != 0 {
			continue
		}
		sc := preference{gpu: next, distance: i, intraHops: len(p.links), intraBw: int(p.bw)}
		if toNet != nil {
			sc.interHops, sc.interPCI, sc.interBw = len(toNet[next].links), w.pciBW(next), int(toNet[next].bw)
		}
		// Few GPUs, mostly in order already: insertion is fastest.
		scores = append(scores, sc)
		for k := len(scores) - 1; k > 0 && scores[k].before(&scores[k-1]); k-- {
			scores[k], scores[k-1] = scores[k-1], scores[k]
		}
	}
	w.scores = scores
	for i := range scores {
		w.order = append(w.order, scores[i].gpu)
	}
	next := w.order[held:]
	if goal.backToNet != -1 && goal.backToNet != step+1 && sameIntra(scores) {
		slices.Reverse(next) // leave the GPUs near the NIC for the end
	}
	return next
}

func sameIntra(scores []preference) bool {
	for _, sc := range scores {
		if sc.intraBw != scores[0].intraBw || sc.intraHops != scores[0].intraHops {
			return false
		}
	}
	return true
}

// neighbours lists the GPUs next to g in enumeration order, the only ones to try with NVSwitches: these like few peers.
func (w *walk) neighbours(g int) []int {
	n := len(w.gpus)
	after, before := (g+1)%n, (g-1+n)%n
	prefer := [2]int{after, -1}
	switch {
	case after == before:
	case w.graph.pattern == PatternRing:
		prefer = [2]int{before, after}
	case w.graph.pattern == PatternSplitTree, w.graph.pattern == PatternBalancedTree:
		prefer = [2]int{after, before}
	}
	held := len(w.order)
	flag := uint64(1) << w.graph.channels
	for _, p := range prefer {
		if p >= 0 && len(w.gpuGPU[g][p].links) > 0 && w.gpus[p].used&flag == 0 {
			w.order = append(w.order, p)
		}
	}
	return w.order[held:]
}
