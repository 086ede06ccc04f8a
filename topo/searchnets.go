package topo

import "math/bits"

// closest returns the ends of the widest paths; among equally wide ones those of the best type. kind is that type.
func closest(paths []searchPath) (ends []int, kind int) {
	kind = pathDIS
	var widest float32
	for i, p := range paths {
		if p.bw > widest || p.bw == widest && p.kind < kind {
			widest, kind = p.bw, p.kind
			ends = ends[:0]
		}
		if p.bw == widest && p.kind == kind {
			ends = append(ends, i)
		}
	}
	return ends, kind
}

// localNet is the NIC that a GPU uses on a channel: GPUs that share their closest NICs start at different ones.
// -1 without a NIC.
func (s *searchSystem) localNet(gpu, channel int) int {
	nets, _ := closest(s.gpuNet[gpu])
	if len(nets) == 0 {
		return -1
	}
	peers, _ := closest(s.netGPU[nets[0]])
	if len(peers) == 0 {
		return -1
	}
	perGPU := (len(nets) + len(peers) - 1) / len(peers)
	first := s.gpus[gpu].dev % len(peers)
	if len(nets)&(len(nets)-1) == 0 {
		first = mirrorBits(first, len(nets))
	}
	return nets[(first+channel%perGPU)%len(nets)]
}

// mirrorBits reverses the lowest bits of n, as many as count (a power of two) has values.
func mirrorBits(n, count int) int {
	width := bits.Len(uint(count)) - 1
	if width == 0 {
		return 0
	}
	return int(bits.Reverse64(uint64(n)<<(64-width)) & uint64(count-1))
}

// localGPU is the GPU that uses this NIC on the earliest channel; -1 if none does.
func (s *searchSystem) localGPU(net int) int {
	gpus, _ := closest(s.netGPU[net])
	for channel := range maxChannels {
		for _, g := range gpus {
			if s.localNet(g, channel) == net {
				return g
			}
		}
	}
	return -1
}

// localNets lists a GPU's NICs by channel until the first one comes again.
func (s *searchSystem) localNets(gpu int) []int {
	var nets []int
	for channel := range maxChannels {
		n := s.localNet(gpu, channel)
		if n < 0 || len(nets) > 0 && n == nets[0] {
			break
		}
		nets = append(nets, n)
	}
	return nets
}

// selectNets lists the NICs to try, best first: those that the GPUs prefer, then others within reach of a path type.
// gpu -1 asks for all GPUs, worst -1 for the preferred ones only.
func (s *searchSystem) selectNets(worst, gpu int) []int {
	key := [2]int{worst, gpu}
	if nets, ok := s.netOrder[key]; ok {
		return nets
	}
	var nets []int
	seen := make([]bool, len(s.nets))
	add := func(n int) {
		if !seen[n] {
			seen[n] = true
			nets = append(nets, n)
		}
	}
	var gpus []int
	for g := range s.gpus {
		if gpu == -1 || gpu == g {
			gpus = append(gpus, g)
		}
	}
	preferred := make([][]int, len(gpus))
	for i, g := range gpus {
		preferred[i] = s.localNets(g)
	}
	if s.hosts > 1 {
		for channel := range maxChannels {
			for _, p := range preferred {
				if channel < len(p) {
					add(p[channel])
				}
			}
		}
	} else {
		for _, p := range preferred {
			for _, n := range p {
				add(n)
			}
		}
	}
	for kind := 0; kind <= worst; kind++ {
		for _, g := range gpus {
			for n := range min(len(s.nets), maxChannels) {
				if s.gpuNet[g][n].kind == kind {
					add(n)
				}
			}
		}
	}
	s.netOrder[key] = nets
	return nets
}

// mayReturn says whether a channel that left from NIC start may come back through NIC n.
func (s *searchSystem) mayReturn(g *searchGraph, start, n, step int) bool {
	a, b := &s.nets[start], &s.nets[n]
	if a.plane != -1 && b.plane != -1 && a.plane != b.plane {
		return false
	}
	if g.pattern == PatternTree && a.id != b.id {
		return false // trees send and receive through one NIC
	}
	switch {
	case g.pattern == PatternRing && g.crossNIC == 2:
		// Pairs of rings swap their NICs.
		if g.channels%2 == 1 && b.id != g.inter[g.channels-1][0] {
			return false
		}
	case g.crossNIC == 0:
		if a.rail != -1 && b.rail != -1 {
			if a.rail != b.rail {
				return false
			}
		} else if a.asic != b.asic || a.port != b.port {
			return false
		}
	}
	return g.pattern != PatternBalancedTree || step == 0 || b.id == g.inter[g.channels][1]
}

func (s *searchSystem) netIndex(id int64) int {
	for n := range s.nets {
		if s.nets[n].id == id {
			return n
		}
	}
	return -1
}

// reserve takes bw (whole GB/s) from all NICs that share the port of NIC n.
func (s *searchSystem) reserve(n int, bw float32) {
	asic, port := s.nets[n].asic, s.nets[n].port
	for i := range s.nets {
		if s.nets[i].asic == asic && s.nets[i].port == port {
			s.nets[i].bw -= bw
		}
	}
}
