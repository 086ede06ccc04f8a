package channels

import (
	"fmt"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// netsAsked are the arguments of selectNets.
type netsAsked struct {
	worst topo.PathType
	gpu   *topo.Node
}

// selectNets lists the NICs to try, best first: those that the GPUs prefer, then those that a path of type worst or
// better reaches. gpu nil means all GPUs, worst -1 only the preferred NICs.
func (m *system) selectNets(worst topo.PathType, gpu *topo.Node) []*topo.Node {
	asked := netsAsked{worst, gpu}
	if known, ok := m.netOrder[asked]; ok {
		return known
	}
	nets := []*topo.Node{}
	add := func(n *topo.Node) {
		if !slices.Contains(nets, n) {
			nets = append(nets, n)
		}
	}
	gpus := m.gpus
	if gpu != nil {
		gpus = []*topo.Node{gpu}
	}
	if len(m.HostHashes) > 1 {
		for channel := range nccl.MaxChannels {
			for _, g := range gpus {
				if own := m.own[g.Index]; channel < len(own) {
					add(own[channel])
				}
			}
		}
	} else {
		for _, g := range gpus {
			for _, n := range m.own[g.Index] {
				add(n)
			}
		}
	}
	for kind := topo.PathLOC; kind <= worst; kind++ {
		for _, g := range gpus {
			for _, n := range m.nets[:min(len(m.nets), nccl.MaxChannels)] {
				if m.Path(g, n).Type == kind {
					add(n)
				}
			}
		}
	}
	m.netOrder[asked] = nets
	return nets
}

// unknownNetwork is the Rail and Plane of a port whose net plugin does not say.
const unknownNetwork = -1

// mayReturn says whether a channel that left from NIC start may come back through NIC n.
func (s *search) mayReturn(start, n *topo.Node, step int) bool {
	g, a, b := s.try, start.Net, n.Net
	if a.Plane != unknownNetwork && b.Plane != unknownNetwork && a.Plane != b.Plane {
		return false
	}
	if g.Pattern == PatternTree && start.ID != n.ID {
		return false // trees send and receive through one NIC
	}
	switch {
	case g.alternates(s.NCCL):
		// Pairs of channels swap their NICs.
		if g.NChannels%2 == 1 && n.ID != g.Inter[g.NChannels-1][0] {
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
	return g.Pattern != PatternBalancedTree || step == 0 || n.ID == g.Inter[g.NChannels][1]
}

// alternates says whether channels that change NICs come in pairs. The second channel of a pair takes the NICs of the
// first in reverse.
func (g *Graph) alternates(version nccl.Version) bool {
	if !version.Has(nccl.CrossedRings) {
		return g.CrossNIC != 0
	}
	return g.Pattern == PatternRing && g.CrossNIC == 2
}

// netOf returns the first NIC of an ID.
func (m *system) netOf(id topo.ID) *topo.Node {
	return m.nets[slices.IndexFunc(m.nets, func(n *topo.Node) bool { return n.ID == id })]
}

// reserve takes bw (whole GB/s) from all NICs that share the port of a NIC.
func (m *system) reserve(net *topo.Node, bw float32) {
	for i, n := range m.nets {
		if n.Net.GUID == net.Net.GUID && n.Net.Port == net.Net.Port {
			m.free[i] -= bw
		}
	}
}

// findLocalNets lists each GPU's own NICs by channel, until the first one comes again.
func (m *system) findLocalNets() error {
	m.own = make([][]*topo.Node, len(m.gpus))
	if len(m.nets) == 0 && !m.Inter {
		return nil
	}
	for i, g := range m.gpus {
		for channel := range nccl.MaxChannels {
			port := m.LocalNet(g, channel)
			if port == nil {
				return fmt.Errorf("no path from %s to the network", g.Name())
			}
			if channel > 0 && port == m.own[i][0] {
				break
			}
			m.own[i] = append(m.own[i], port)
		}
	}
	return nil
}

// minNetBW is the bandwidth in GB/s of the slowest way from a GPU to one of its own NICs; 0 without NICs.
func (m *system) minNetBW() (least float32) {
	first := true
	for i, g := range m.gpus {
		for _, n := range m.own[i] {
			if bw := float32(m.Path(g, n).BW); first || bw < least {
				least, first = bw, false
			}
		}
	}
	return least
}
