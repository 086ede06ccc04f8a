// Package channels computes what NCCL sets up on a system, without a GPU. Search finds the channels of rings, trees,
// NVLS and CollNet as NCCL's search does. Tune goes all the way from a topology file to NCCL's estimates. Settings
// name the release whose rules hold, and Variables are the NCCL_* variables that count.
//
// A channel is a path through all GPUs of a node, with a NIC at both ends if there are several nodes. The search
// claims bandwidth on the links of such paths until no further channel fits. It has four layers, outermost first:
//
//	graphs   (search.go)    a search for each graph: ring, tree, CollNet, NVLS
//	search   (attempts.go)  several walks for one graph, which relax the limits and then raise the speed
//	walk     (walk.go)      one depth-first search under fixed limits
//	fromNets (inter.go)     the NICs at which a channel of a walk begins and ends
//
// The order of all tries is NCCL's. The search is cut off after a number of steps, so another order finds other
// channels.
//
// Documents are not changed. The package keeps nothing between calls. Bandwidths are float32 and computed in NCCL's
// order, because its search compares them exactly.
package channels

import (
	"cmp"
	"math"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/internal/cnum"
)

// A system is what channels are searched on, which must be nobody else's: a search takes bandwidth from its
// links and gives it back. One goroutine uses it, for all graphs of one communicator in turn. NCCL keeps the rounding
// errors of one graph's search for the next, so the order matters.
type system struct {
	*topo.System
	gpus, nets []*topo.Node // of the system

	free []float32      // by NIC, GB/s not yet used by a channel
	used []uint64       // by GPU, the channels that pass it, one bit each
	own  [][]*topo.Node // by GPU, its own NICs in the order in which its channels use them
	near [][]*topo.Node // by GPU, the other GPUs in the order of nearness

	maxBW    float32   // GB/s, the fastest that one channel could be
	totalBW  float32   // GB/s, the most that one GPU can move
	minCC    int       // lowest compute capability of a device, 10*major+minor
	cpu      *topo.CPU // the first one
	crossNIC topo.Toggle

	// netOrder keeps the answers of selectNets: asking anew makes the search of an NVL72 eight times as long.
	netOrder map[netsAsked][]*topo.Node
}

// newSystem takes over a system whose paths were computed and which was trimmed, see topo.System.Init.
func newSystem(sys *topo.System) (*system, error) {
	m := &system{System: sys, gpus: sys.Nodes[topo.NodeGPU], nets: sys.Nodes[topo.NodeNET],
		netOrder: map[netsAsked][]*topo.Node{}}
	if len(m.gpus) == 0 {
		return nil, errNoRank
	}
	totals := sys.Totals()
	m.maxBW, m.totalBW, m.cpu = float32(totals.MaxBW), float32(totals.TotalBW), sys.Nodes[topo.NodeCPU][0].CPU
	m.minCC = slices.MinFunc(sys.Nodes[topo.NodeDEV], func(a, b *topo.Node) int {
		return cmp.Compare(a.Dev.SM, b.Dev.SM)
	}).Dev.SM
	for _, n := range m.nets {
		m.free = append(m.free, float32(n.Net.BW))
	}
	m.used = make([]uint64, len(m.gpus))
	for _, g := range m.gpus {
		m.near = append(m.near, m.nearness(g))
	}
	return m, m.findLocalNets()
}

// hasNVS says whether there is an NVSwitch node. Searches only use the first.
func (m *system) hasNVS() bool { return len(m.Nodes[topo.NodeNVS]) > 0 }

func isIntel(n *topo.Node) bool {
	return n.CPU != nil && n.CPU.Arch == topo.ArchX86 && n.CPU.Vendor == topo.VendorIntel
}

// round3 rounds to a thousandth, half away from zero, as NCCL does after each subtraction of a bandwidth.
func round3(x float32) float32 {
	return float32(math.Round(float64(x*1000))) / 1000
}

// take subtracts bw from the links of a path from a node, up to steps of them, and returns how many had enough. A
// negative bw gives back.
func take(from *topo.Node, p *topo.Path, steps int, bw float32) int {
	pciBW, fromGPU := bw, from.GPU != nil
	toIntel := func(l *topo.Link) bool { return isIntel(l.To) }
	if fromGPU && p.Type == topo.PathPHB && slices.ContainsFunc(p.Links, toIntel) {
		pciBW = bw * 6 / 5 // an Intel CPU splits a GPU's traffic into small packets
	}
	for i, link := range p.Links[:steps] {
		forward := bw
		if link.Type == topo.LinkPCI {
			forward = pciBW
		}
		// Before Ampere, reads from the network cost requests the other way; on POWER all NVLink traffic to the
		// CPU does.
		var back float32
		if link.To.Dev != nil && link.To.Dev.SM < 80 && !fromGPU {
			back += forward / 8
		}
		if link.To.CPU != nil && link.To.CPU.Arch == topo.ArchPOWER && link.Type == topo.LinkNVL {
			back += forward
		}
		var reverse *topo.Link
		if back != 0 {
			reverse = link.To.LinkTo(from, link.Type)
		}
		if link.BW < forward || back != 0 && (reverse == nil || reverse.BW < back) {
			return i
		}
		link.BW = round3(link.BW - forward)
		if back != 0 {
			reverse.BW = round3(reverse.BW - back)
		}
		from = link.To
	}
	return steps
}

// pciBW is the remaining PCI bandwidth between a GPU and the switch above it, in whole GB/s.
func pciBW(gpu *topo.Node) int {
	for _, up := range gpu.GPU.Device.Links {
		if up.Type != topo.LinkPCI {
			continue
		}
		for _, down := range up.To.Links {
			if down.To == gpu.GPU.Device {
				return int(min(up.BW, down.BW))
			}
		}
	}
	return -1
}

// pathRange returns the best and the worst type of the paths between nodes; those to themselves do not count.
func (m *system) pathRange(from, to []*topo.Node) (best, worst topo.PathType) {
	best, worst = topo.PathSYS, topo.PathLOC
	for _, a := range from {
		for _, b := range to {
			if kind := m.Path(a, b).Type; a != b {
				best, worst = min(best, kind), max(worst, kind)
			}
		}
	}
	return best, worst
}

// splitNVLink says whether there are exactly two NVLink domains of more than one GPU.
func (m *system) splitNVLink() bool {
	domain := make([]int, len(m.gpus))
	for g := range domain {
		domain[g] = g
	}
	for g := range m.gpus {
		for p := g + 1; p < len(m.gpus); p++ {
			if m.Path(m.gpus[g], m.gpus[p]).Type == topo.PathNVL {
				domain[p] = domain[g]
			}
		}
	}
	size, domains := map[int]int{}, 0
	for _, d := range domain {
		if size[d]++; size[d] == 2 {
			domains++
		}
	}
	return domains == 2
}

// newGraph returns a graph under construction, with room for all channels.
func newGraph(id int, pattern string, gpus, minChannels, maxChannels int) *Graph {
	g := &Graph{ID: id, Pattern: pattern, MinChannels: minChannels, MaxChannels: maxChannels}
	for range nccl.MaxChannels + 1 {
		g.Intra, g.Inter = append(g.Intra, make([]int, gpus)), append(g.Inter, make([]topo.ID, 2))
	}
	return g
}

// copyFrom makes g equal to o without sharing memory, up to the channels that o has.
func (g *Graph) copyFrom(o *Graph) {
	intra, inter := g.Intra, g.Inter
	*g = *o
	g.Intra, g.Inter = intra, inter
	for c := range o.NChannels {
		g.copyChannel(c, o, c)
	}
}

func (g *Graph) copyChannel(to int, o *Graph, from int) {
	copy(g.Intra[to], o.Intra[from])
	copy(g.Inter[to], o.Inter[from])
}

// beats reports whether a solution is better than the best one so far.
func (g *Graph) beats(best *Graph, gpus int) bool {
	if g.NChannels < g.MinChannels {
		return false // a tree must have as many channels as the ring has
	}
	n, m := float32(g.NChannels), float32(best.NChannels)
	if g.Pattern == PatternNVLS {
		// Each channel is a GPU that pulls from the switch: the more the better.
		return g.NChannels > best.NChannels && g.NChannels <= gpus || n*g.BWInter > m*best.BWInter
	}
	if n*g.BWIntra != m*best.BWIntra {
		return n*g.BWIntra > m*best.BWIntra
	}
	return g.Pattern == best.Pattern && g.CrossNIC == best.CrossNIC && g.NHops < best.NHops
}

// duplicate uses each channel twice at half the speed where fast links need more than one channel's threads.
func (g *Graph) duplicate(minCC int) {
	switch {
	case g.NChannels == 0, g.Pattern == PatternNVLS, g.BWIntra < 25:
		return
	case minCC > 80 && g.BWIntra < 50 && g.NChannels > 4:
		return
	}
	n := min(2*g.NChannels, g.MaxChannels)
	for c := g.NChannels; c < n; c++ {
		g.copyChannel(c, g, c-g.NChannels)
	}
	share := float32((n + g.NChannels - 1) / g.NChannels)
	g.BWIntra /= share
	g.BWInter /= share
	g.NChannels = n
}

// result is the finished graph.
func (g *Graph) result(inter bool) Graph {
	r := *g
	r.SameChannels, r.same, r.collNet = cnum.Bit(g.same), false, false
	r.Intra, r.Inter = r.Intra[:r.NChannels], r.Inter[:r.NChannels]
	if !inter {
		r.Inter = nil
	}
	return r
}

// nearness lists the other GPUs from the widest path to the narrowest (whole GB/s), then by hops, then in enumeration
// order. GPUs that cannot be reached are left out.
func (m *system) nearness(g *topo.Node) (all []*topo.Node) {
	for i := 1; i < len(m.gpus); i++ {
		if next := m.gpus[(g.Index+i)%len(m.gpus)]; m.Path(g, next).Hops > 0 {
			all = append(all, next)
		}
	}
	slices.SortStableFunc(all, func(a, b *topo.Node) int {
		p, q := m.Path(g, a), m.Path(g, b)
		return cmp.Or(cmp.Compare(int(q.BW), int(p.BW)), cmp.Compare(p.Hops, q.Hops))
	})
	return all
}

// candidates lists the GPUs to try after g, best first. What is tried first decides what is found, because the
// search is cut off by its steps.
func (s *search) candidates(g *topo.Node, step int, goal goals) []*topo.Node {
	switch goal.order {
	case orderPCI:
		return s.gpus[step+1 : step+2]
	case orderReplay:
		return []*topo.Node{s.previous(step + 1)}
	}
	if s.hasNVS() {
		return s.neighbours(g)
	}
	var free []*topo.Node
	for _, next := range s.near[g.Index] {
		if !s.passes(next) {
			free = append(free, next)
		}
	}
	if goal.backToNet == -1 || len(free) == 0 {
		return free
	}
	first := s.Path(g, free[0])
	alike := true // all are equally near to g
	for _, next := range free {
		p := s.Path(g, next)
		alike = alike && int(p.BW) == int(first.BW) && p.Hops == first.Hops
	}
	// The channel has to end near a NIC; whole GB/s, as NCCL compares them.
	net := s.netOf(s.try.Inter[s.try.NChannels][0])
	slices.SortStableFunc(free, func(a, b *topo.Node) int {
		p, q := s.Path(net, a), s.Path(net, b)
		return cmp.Or(cmp.Compare(int(q.BW), int(p.BW)), cmp.Compare(pciBW(b), pciBW(a)), cmp.Compare(p.Hops, q.Hops))
	})
	if goal.backToNet != step+1 && alike {
		slices.Reverse(free) // leave the GPUs near the NIC for the end
	}
	return free
}

// passes reports whether the current channel passes a GPU.
func (s *search) passes(g *topo.Node) bool { return s.used[g.Index]>>s.try.NChannels&1 != 0 }

// neighbours lists the GPUs next to g in enumeration order. With NVSwitches NCCL tries no others, because NVSwitches
// work best with few peers.
func (s *search) neighbours(g *topo.Node) []*topo.Node {
	n := len(s.gpus)
	after, before := s.gpus[(g.Index+1)%n], s.gpus[(g.Index-1+n)%n]
	prefer := []*topo.Node{after}
	switch {
	case after == before:
	case s.try.Pattern == PatternRing:
		prefer = []*topo.Node{before, after}
	case s.try.Pattern == PatternBalancedTree:
		prefer = []*topo.Node{after, before}
	}
	return slices.DeleteFunc(prefer, func(p *topo.Node) bool { return s.Path(g, p).Hops == 0 || s.passes(p) })
}
