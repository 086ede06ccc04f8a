package channels

import (
	"cmp"
	"slices"
)

// preference ranks the GPUs that could come next in a channel that has to end near a NIC; whole GB/s, as NCCL
// compares them. What decides last comes from nearness.
type preference struct {
	gpu             int32
	bw, pciBW, hops int32 // between the GPU and the NIC
}

// before says whether a is to be tried before b.
func (a *preference) before(b *preference) bool {
	switch {
	case a.bw != b.bw:
		return a.bw > b.bw
	case a.pciBW != b.pciBW:
		return a.pciBW > b.pciBW
	}
	return a.hops < b.hops
}

// nearness lists, for each GPU, the others from the widest path to the narrowest (whole GB/s), then by hops, then in
// enumeration order. GPUs that cannot be reached are left out.
func (s *searchSystem) nearness() [][]int {
	all := make([][]int, len(s.gpus))
	for g := range all {
		for i := 1; i < len(s.gpus); i++ {
			if next := (g + i) % len(s.gpus); len(s.gpuGPU[g][next].links) > 0 {
				all[g] = append(all[g], next)
			}
		}
		slices.SortStableFunc(all[g], func(a, b int) int {
			p, q := &s.gpuGPU[g][a], &s.gpuGPU[g][b]
			return cmp.Or(cmp.Compare(int(q.bw), int(p.bw)), cmp.Compare(len(p.links), len(q.links)))
		})
	}
	return all
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
	flag := uint64(1) << w.graph.channels
	if goal.backToNet == -1 {
		for _, next := range w.near[g] {
			if w.gpus[next].used&flag == 0 {
				w.order = append(w.order, next)
			}
		}
		return w.order[held:]
	}
	toNet := w.netGPU[w.netIndex(w.graph.inter[w.graph.channels][0])]
	sorted := w.sorted[:0]
	alike, first := true, -1
	for _, next := range w.near[g] {
		if w.gpus[next].used&flag != 0 {
			continue
		}
		p := &toNet[next]
		sorted = append(sorted, preference{int32(next), int32(p.bw), int32(w.pciBW(next)), int32(len(p.links))})
		// Few GPUs, often in order already: insertion is fastest.
		last := len(sorted) - 1
		for k := last; k > 0 && sorted[k].before(&sorted[k-1]); k-- {
			sorted[k], sorted[k-1] = sorted[k-1], sorted[k]
		}
		if first < 0 {
			first = next
		}
		alike = alike && w.alike(g, first, next)
	}
	w.sorted = sorted
	for i := range sorted {
		w.order = append(w.order, int(sorted[i].gpu))
	}
	if goal.backToNet != step+1 && alike {
		slices.Reverse(w.order[held:]) // leave the GPUs near the NIC for the end
	}
	return w.order[held:]
}

// alike says whether two GPUs are equally near to g.
func (s *searchSystem) alike(g, a, b int) bool {
	p, q := &s.gpuGPU[g][a], &s.gpuGPU[g][b]
	return int(p.bw) == int(q.bw) && len(p.links) == len(q.links)
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
