// Package channels computes what NCCL sets up on a system, without a GPU. Search finds the channels of rings, trees,
// NVLS and CollNet as NCCL's search does. Tune goes all the way from a topology file to NCCL's estimates. Settings
// name the release whose rules hold, and Variables are the NCCL_* variables that count.
//
// A channel is a path through all GPUs of a node, with a NIC at both ends if there are several nodes. The search
// claims bandwidth on the links of such paths until no further channel fits. It has four layers, outermost first:
//
//	graphs   (search.go)    a search for each graph: ring, tree, CollNet, NVLS
//	attempts (attempts.go)  several walks for one graph, which relax the limits and then raise the speed
//	walk     (walk.go)      one depth-first search under fixed limits
//	fromNets (inter.go)     the NICs at which a channel of a walk begins and ends
//
// The order of all tries is NCCL's. The search is cut off after a number of steps, so another order finds other
// channels.
//
// Systems are read, not changed. The package keeps nothing between calls. Bandwidths are float32 and computed in NCCL's
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

// searchSystem is what the channel search works on: a private copy of the topology's links, whose bandwidths the
// search consumes and gives back, and the paths between the nodes that channels connect.
//
// It is used by one goroutine, for all graphs of one communicator in turn: NCCL keeps the rounding errors of one
// graph's search for the next, so the order matters.
type searchSystem struct {
	*topo.System
	nodes []searchNode
	links []searchLink
	gpus  []searchGPU
	nets  []searchNet

	gpuGPU, gpuNet, netGPU [][]searchPath // [from][to]
	gpuNVS, nvsGPU         []searchPath   // to and from the first NVSwitch
	near                   [][]int        // by GPU, the other GPUs in the order of nearness

	maxBW    float32   // GB/s, the fastest that one channel could be
	totalBW  float32   // GB/s, the most that one GPU can move
	minCC    int       // lowest compute capability of a device, 10*major+minor
	cpu      *topo.CPU // the first one
	crossNIC topo.Toggle

	// netOrder are answers of selectNets, by its arguments; without them an NVL72 takes eight times as long.
	netOrder map[[2]int][]int
}

type searchNode struct {
	node  *topo.Node
	links []int // in stored order
}

type searchLink struct {
	kind     topo.LinkType
	from, to int // nodes
	reverse  int // the first link back of the same kind; -1 if there is none
	bw       float32
}

type searchGPU struct {
	rank   int
	device int    // the physical GPU's node
	nets   []int  // its own NICs, in the order in which its channels use them
	used   uint64 // channels that pass this GPU, one bit each
}

type searchNet struct {
	*topo.Net
	id    topo.ID
	free  float32 // GB/s not yet used by a channel
	ports []int   // NICs that share this one's port, itself included
}

type searchPath struct {
	kind  topo.PathType
	bw    float32
	links []int
	// throughIntel: an Intel CPU on the path splits a GPU's traffic into small packets, which costs a fifth more.
	throughIntel bool
}

// newSearchSystem copies what the search needs. Paths must have been computed and the system trimmed, see
// topo.System.Init. The system is not changed.
func newSearchSystem(sys *topo.System) (*searchSystem, error) {
	if len(sys.Nodes[topo.NodeGPU]) == 0 {
		return nil, errNoRank
	}
	totals := sys.Totals()
	oldest := slices.MinFunc(sys.Nodes[topo.NodeDEV], func(a, b *topo.Node) int {
		return cmp.Compare(a.Dev.SM, b.Dev.SM)
	})
	s := &searchSystem{
		System: sys, maxBW: float32(totals.MaxBW), totalBW: float32(totals.TotalBW), minCC: oldest.Dev.SM,
		cpu: sys.Nodes[topo.NodeCPU][0].CPU, netOrder: map[[2]int][]int{},
	}
	number := map[*topo.Node]int{}
	for _, nodes := range sys.Nodes {
		for _, n := range nodes {
			number[n] = len(number)
		}
	}
	link := map[*topo.Link]int{}
	s.nodes = make([]searchNode, len(number))
	for _, nodes := range sys.Nodes {
		for _, n := range nodes {
			sn := &s.nodes[number[n]]
			sn.node = n
			for i := range n.Links {
				l := &n.Links[i]
				link[l] = len(s.links)
				sn.links = append(sn.links, len(s.links))
				s.links = append(s.links, searchLink{kind: l.Type, from: number[n], to: number[l.To], bw: l.BW})
			}
		}
	}
	s.pairLinks()
	for _, g := range sys.Nodes[topo.NodeGPU] {
		s.gpus = append(s.gpus, searchGPU{rank: g.GPU.Rank, device: number[g.GPU.Device]})
	}
	for _, n := range sys.Nodes[topo.NodeNET] {
		s.nets = append(s.nets, searchNet{Net: n.Net, id: n.ID, free: float32(n.Net.BW)})
	}
	for i := range s.nets {
		for j := range s.nets {
			if s.nets[i].GUID == s.nets[j].GUID && s.nets[i].Port == s.nets[j].Port {
				s.nets[i].ports = append(s.nets[i].ports, j)
			}
		}
	}
	paths := func(from, to topo.NodeType) [][]searchPath {
		var all [][]searchPath
		for _, a := range sys.Nodes[from] {
			row := make([]searchPath, len(sys.Nodes[to]))
			for i, b := range sys.Nodes[to] {
				p := sys.Path(a, b)
				row[i] = searchPath{kind: p.Type, bw: float32(p.BW)}
				for _, l := range p.Links {
					row[i].links = append(row[i].links, link[l])
					row[i].throughIntel = row[i].throughIntel || p.Type == topo.PathPHB && isIntel(l.To)
				}
			}
			all = append(all, row)
		}
		return all
	}
	s.gpuGPU, s.gpuNet, s.netGPU = paths(topo.NodeGPU, topo.NodeGPU), paths(topo.NodeGPU, topo.NodeNET),
		paths(topo.NodeNET, topo.NodeGPU)
	if s.hasNVS() {
		for _, row := range paths(topo.NodeGPU, topo.NodeNVS) {
			s.gpuNVS = append(s.gpuNVS, row[0])
		}
		s.nvsGPU = paths(topo.NodeNVS, topo.NodeGPU)[0]
	}
	s.near = s.nearness()
	return s, s.findLocalNets()
}

// hasNVS says whether there is an NVSwitch node. Searches only use the first.
func (s *searchSystem) hasNVS() bool { return len(s.Nodes[topo.NodeNVS]) > 0 }

// pairLinks finds the way back of each link.
func (s *searchSystem) pairLinks() {
	for i := range s.links {
		l := &s.links[i]
		l.reverse = -1
		for _, back := range s.nodes[l.to].links {
			if s.links[back].to == l.from && s.links[back].kind == l.kind {
				l.reverse = back
				break
			}
		}
	}
}

func isIntel(n *topo.Node) bool {
	return n.CPU != nil && n.CPU.Arch == topo.ArchX86 && n.CPU.Vendor == topo.VendorIntel
}

// round3 rounds to a thousandth, half away from zero, as NCCL does after each subtraction of a bandwidth.
func round3(x float32) float32 {
	return float32(math.Round(float64(x*1000))) / 1000
}

// take subtracts bw from the links of a path, up to steps of them, and returns how many had enough. fromGPU says
// whether the path starts at a GPU. A negative bw gives back.
func (s *searchSystem) take(p *searchPath, fromGPU bool, steps int, bw float32) int {
	pciBW := bw
	if fromGPU && p.throughIntel {
		pciBW = bw * 6 / 5
	}
	for i, l := range p.links[:steps] {
		link := &s.links[l]
		forward := bw
		if link.kind == topo.LinkPCI {
			forward = pciBW
		}
		// Before Ampere, reads from the network cost requests the other way; on POWER all NVLink traffic to the
		// CPU does.
		var back float32
		to := s.nodes[link.to].node
		if to.Dev != nil && to.Dev.SM < 80 && !fromGPU {
			back += forward / 8
		}
		if to.CPU != nil && to.CPU.Arch == topo.ArchPOWER && link.kind == topo.LinkNVL {
			back += forward
		}
		if link.bw < forward || back != 0 && (link.reverse < 0 || s.links[link.reverse].bw < back) {
			return i
		}
		link.bw = round3(link.bw - forward)
		if back != 0 {
			reverse := &s.links[link.reverse]
			reverse.bw = round3(reverse.bw - back)
		}
	}
	return steps
}

// pciBW is the remaining PCI bandwidth between a GPU and the switch above it, in whole GB/s.
func (s *searchSystem) pciBW(gpu int) int {
	dev := s.gpus[gpu].device
	for _, up := range s.nodes[dev].links {
		if s.links[up].kind != topo.LinkPCI {
			continue
		}
		for _, down := range s.nodes[s.links[up].to].links {
			if s.links[down].to == dev {
				return int(min(s.links[up].bw, s.links[down].bw))
			}
		}
	}
	return -1
}

// pathRange returns the best and worst type among paths from GPUs; self says that paths[i][i] do not count.
func pathRange(paths [][]searchPath, self bool) (best, worst topo.PathType) {
	best, worst = topo.PathSYS, topo.PathLOC
	for i := range paths {
		for j, p := range paths[i] {
			if self && i == j {
				continue
			}
			best, worst = min(best, p.kind), max(worst, p.kind)
		}
	}
	return best, worst
}

// splitNVLink says whether there are exactly two NVLink domains of more than one GPU.
func (s *searchSystem) splitNVLink() bool {
	domain := make([]int, len(s.gpus))
	for g := range domain {
		domain[g] = g
	}
	for g := range s.gpus {
		for p := g + 1; p < len(s.gpus); p++ {
			if s.gpuGPU[g][p].kind == topo.PathNVL {
				domain[p] = domain[g]
			}
		}
	}
	size := make([]int, len(s.gpus))
	for _, d := range domain {
		size[d]++
	}
	domains := 0
	for _, n := range size {
		if n > 1 {
			domains++
		}
	}
	return domains == 2
}

// searchGraph is a graph under construction, with room for all channels and the limits that the current attempt works
// under.
type searchGraph struct {
	Graph
	collNet bool
	same    bool // all channels must visit the GPUs as the first one does (NCCL's sameChannels)
}

func newSearchGraph(id int, pattern string, gpus, minChannels, maxChannels int) *searchGraph {
	g := &searchGraph{Graph: Graph{ID: id, Pattern: pattern, MinChannels: minChannels, MaxChannels: maxChannels}}
	for range nccl.MaxChannels + 1 {
		g.Intra, g.Inter = append(g.Intra, make([]int, gpus)), append(g.Inter, make([]topo.ID, 2))
	}
	return g
}

// copyFrom makes g equal to o without sharing memory, up to the channels that o has.
func (g *searchGraph) copyFrom(o *searchGraph) {
	intra, inter := g.Intra, g.Inter
	*g = *o
	g.Intra, g.Inter = intra, inter
	for c := range o.NChannels {
		g.copyChannel(c, o, c)
	}
}

func (g *searchGraph) copyChannel(to int, o *searchGraph, from int) {
	copy(g.Intra[to], o.Intra[from])
	copy(g.Inter[to], o.Inter[from])
}

// beats reports whether a solution is better than the best one so far.
func (g *searchGraph) beats(best *searchGraph, gpus int) bool {
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
func (g *searchGraph) duplicate(minCC int) {
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
func (g *searchGraph) result(inter bool) Graph {
	r := g.Graph
	r.SameChannels = cnum.Bit(g.same)
	r.Intra, r.Inter = r.Intra[:r.NChannels], r.Inter[:r.NChannels]
	if !inter {
		r.Inter = nil
	}
	return r
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
