package channels

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// selectNets lists the NICs to try, best first: those that the GPUs prefer, then those that a path of type worst or
// better reaches. gpu -1 means all GPUs, worst -1 only the preferred NICs.
func (s *searchSystem) selectNets(worst topo.PathType, gpu int) []int {
	asked := [2]int{int(worst), gpu}
	if known, ok := s.netOrder[asked]; ok {
		return known
	}
	nets := []int{}
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
	if len(s.HostHashes) > 1 {
		for channel := range nccl.MaxChannels {
			for _, g := range gpus {
				if own := s.gpus[g].nets; channel < len(own) {
					add(own[channel])
				}
			}
		}
	} else {
		for _, g := range gpus {
			for _, n := range s.gpus[g].nets {
				add(n)
			}
		}
	}
	for kind := topo.PathLOC; kind <= worst; kind++ {
		for _, g := range gpus {
			for n := range min(len(s.nets), nccl.MaxChannels) {
				if s.gpuNet[g][n].kind == kind {
					add(n)
				}
			}
		}
	}
	s.netOrder[asked] = nets
	return nets
}

// unknownNetwork is the Rail and Plane of a port whose net plugin does not say.
const unknownNetwork = -1

// mayReturn says whether a channel that left from NIC start may come back through NIC n.
func (s *searchSystem) mayReturn(g *searchGraph, start, n, step int) bool {
	a, b := &s.nets[start], &s.nets[n]
	if a.Plane != unknownNetwork && b.Plane != unknownNetwork && a.Plane != b.Plane {
		return false
	}
	if g.Pattern == PatternTree && a.id != b.id {
		return false // trees send and receive through one NIC
	}
	switch {
	case g.alternates(s.NCCL):
		// Pairs of channels swap their NICs.
		if g.NChannels%2 == 1 && b.id != g.Inter[g.NChannels-1][0] {
			return false
		}
	case g.CrossNIC == 0 && a.Rail != unknownNetwork && b.Rail != unknownNetwork:
		if a.Rail != b.Rail {
			return false
		}
	case g.CrossNIC == 0:
		if a.GUID != b.GUID || a.Port != b.Port {
			return false
		}
	}
	return g.Pattern != PatternBalancedTree || step == 0 || b.id == g.Inter[g.NChannels][1]
}

// alternates says whether channels that change NICs come in pairs. The second channel of a pair takes the NICs of the
// first in reverse.
func (g *searchGraph) alternates(version nccl.Version) bool {
	if !version.Has(nccl.CrossedRings) {
		return g.CrossNIC != 0
	}
	return g.Pattern == PatternRing && g.CrossNIC == 2
}

func (s *searchSystem) netIndex(id topo.ID) int {
	for n := range s.nets {
		if s.nets[n].id == id {
			return n
		}
	}
	return -1
}

// reserve takes bw (whole GB/s) from all NICs that share the port of NIC n.
func (s *searchSystem) reserve(n int, bw float32) {
	for _, i := range s.nets[n].ports {
		s.nets[i].free -= bw
	}
}

// findLocalNets lists each GPU's own NICs by channel, until the first one comes again.
func (s *searchSystem) findLocalNets() error {
	if len(s.nets) == 0 && !s.Inter {
		return nil
	}
	for g := range s.gpus {
		nets := &s.gpus[g].nets
		for channel := range nccl.MaxChannels {
			port, err := s.LocalNet(s.Nodes[topo.NodeGPU][g], channel)
			if err != nil {
				return err
			}
			if channel > 0 && port.Index == (*nets)[0] {
				break
			}
			*nets = append(*nets, port.Index)
		}
	}
	return nil
}

// minNetBW is the bandwidth in GB/s of the slowest way from a GPU to one of its own NICs; 0 without NICs.
func (s *searchSystem) minNetBW() float32 {
	var ways []float32
	for g := range s.gpus {
		for _, n := range s.gpus[g].nets {
			ways = append(ways, s.gpuNet[g][n].bw)
		}
	}
	if len(ways) == 0 {
		return 0
	}
	return slices.Min(ways)
}
