package channels

import (
	"cmp"
	"slices"
)

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
// search is cut off by its steps.
func (w *walk) candidates(g, step int, goal goals) []int {
	switch goal.order {
	case orderPCI:
		return []int{step + 1}
	case orderReplay:
		return []int{w.previous(step + 1)}
	}
	if w.hasNVS() {
		return w.neighbours(g)
	}
	flag := uint64(1) << w.graph.NChannels
	var free []int
	for _, next := range w.near[g] {
		if w.gpus[next].used&flag == 0 {
			free = append(free, next)
		}
	}
	if goal.backToNet == -1 || len(free) == 0 {
		return free
	}
	first := &w.gpuGPU[g][free[0]]
	alike := true // all are equally near to g
	for _, next := range free {
		p := &w.gpuGPU[g][next]
		alike = alike && int(p.bw) == int(first.bw) && len(p.links) == len(first.links)
	}
	// The channel has to end near a NIC; whole GB/s, as NCCL compares them.
	toNet := w.netGPU[w.netIndex(w.graph.Inter[w.graph.NChannels][0])]
	slices.SortStableFunc(free, func(a, b int) int {
		p, q := &toNet[a], &toNet[b]
		return cmp.Or(cmp.Compare(int(q.bw), int(p.bw)), cmp.Compare(w.pciBW(b), w.pciBW(a)),
			cmp.Compare(len(p.links), len(q.links)))
	})
	if goal.backToNet != step+1 && alike {
		slices.Reverse(free) // leave the GPUs near the NIC for the end
	}
	return free
}

// neighbours lists the GPUs next to g in enumeration order. With NVSwitches NCCL tries no others, because NVSwitches
// work best with few peers.
func (w *walk) neighbours(g int) []int {
	n := len(w.gpus)
	after, before := (g+1)%n, (g-1+n)%n
	prefer := []int{after}
	switch {
	case after == before:
	case w.graph.Pattern == PatternRing:
		prefer = []int{before, after}
	case w.graph.Pattern == PatternBalancedTree:
		prefer = []int{after, before}
	}
	flag := uint64(1) << w.graph.NChannels
	return slices.DeleteFunc(prefer, func(p int) bool {
		return len(w.gpuGPU[g][p].links) == 0 || w.gpus[p].used&flag != 0
	})
}
