package topo

import (
	"fmt"
	"slices"
	"sort"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
)

// better says whether a path is preferred to another: the better type, then the wider path, then fewer hops. Before
// nccl.BestTypePaths it is the wider path, if it is not longer.
func (s *System) better(p, old *Path) bool {
	switch {
	case !s.NCCL.Has(nccl.BestTypePaths):
		return p.BW > old.BW && (old.BW == 0 || p.Hops <= old.Hops)
	case p.Type != old.Type:
		return p.Type < old.Type
	case p.BW != old.BW:
		return p.BW > old.BW
	}
	return p.Hops < old.Hops
}

// search finds the paths from all nodes to one base node, breadth first from the base. A node whose path has improved
// is visited again, but nodes that built on its old path keep that unless the new one is better for them too: this is
// NCCL's order, and results depend on it.
type search struct {
	sys *System

	base   *Node
	device *Node   // all paths may cross it: the base itself, or the device of a base GPU
	slot   int     // of the base among the paths of a node
	next   []*Node // to visit in the next round; these are queued
}

// run sets the path of every node to the base.
func (s *search) run(base *Node) error {
	s.base, s.device = base, base
	if base.Type == NodeGPU {
		s.device = base.GPU.Device
	}
	// Nodes that share an ID share a path.
	s.slot = s.sys.find(base.Type, base.ID).Index
	*s.path(base) = Path{Type: PathLOC, BW: bwLocal}
	s.next = []*Node{base}
	for len(s.next) > 0 {
		current := s.next
		s.next = nil
		for _, n := range current {
			n.queued = false
		}
		for _, n := range current {
			for i := range n.Links {
				if err := s.follow(n, &n.Links[i]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// path is the place of a node's path to the base.
func (s *search) path(n *Node) *Path {
	t := s.base.Type
	if n.paths[t] == nil {
		paths := make([]Path, len(s.sys.Nodes[t]))
		for i := range paths {
			paths[i] = noPath
		}
		n.paths[t] = paths
	}
	return &n.paths[t][s.slot]
}

// follow offers the node at the other end of a link the path through n.
func (s *search) follow(n *Node, l *Link) error {
	via, old := s.path(n), s.path(l.To)
	if !s.mayCross(n, l, via) {
		return nil
	}
	p := Path{
		Type: max(via.Type, s.stepType(n, l, via)),
		Hops: via.Hops + 1,
		BW:   min(via.BW, Float32(l.BW)),
	}
	if !s.sys.better(&p, old) {
		return nil
	}
	back := l.To.LinkTo(n, l.Type)
	if back == nil && len(old.Links) > 0 {
		back = old.Links[0] // as NCCL: the first step stays
	}
	if back == nil {
		return fmt.Errorf("%s has a link %s to %s, but there is none back", n.Name(), l.Type, l.To.Name())
	}
	p.Links = append([]*Link{back}, via.Links...)
	*old = p
	if !l.To.queued {
		l.To.queued = true
		s.next = append(s.next, l.To)
	}
	return nil
}

// bridgeHops is the length of a path to the base to which one more NVLink adds a bridge: one hop from device to device,
// and for a base GPU another hop to its device.
func (s *search) bridgeHops() int {
	if s.base.Type == NodeGPU {
		return 2
	}
	return 1
}

// mayCross says whether a path may come through n over the link. Another GPU's device forwards only to its own GPUs,
// and for one step from NVLink to NVLink.
func (s *search) mayCross(n *Node, l *Link, via *Path) bool {
	if n.Type != NodeDEV || n == s.device {
		return true
	}
	if l.Type == LinkLOC && l.To.Type == NodeGPU {
		return true
	}
	bridge := l.Type == LinkNVL && l.To.Type == NodeDEV && via.Hops <= s.bridgeHops()
	return bridge && !s.sys.NVBDisable
}

// stepType is the type of a path that has this step as its worst.
func (s *search) stepType(n *Node, l *Link, via *Path) PathType {
	t := l.Type.pathType()
	switch {
	case l.Type == LinkPCI && (n.Type == NodeCPU || l.To.Type == NodeCPU):
		return PathPHB
	case n.Type == NodePCI && l.To.Type == NodePCI:
		return PathPXB
	case n.Type == NodeDEV && via.Type == PathNVL && t == PathNVL && via.Hops == s.bridgeHops():
		return PathNVB
	}
	return t
}

// LinkTo returns the first link of a type from a node to another, or nil.
func (n *Node) LinkTo(to *Node, t LinkType) *Link {
	for i := range n.Links {
		if l := &n.Links[i]; l.To == to && l.Type == t {
			return l
		}
	}
	return nil
}

// maxRingSteps bounds the search for a ring. Up to ten GPUs it is enough to try all orders. Machines with more GPUs
// nearly always join all of them alike, and then the first order is a ring.
const maxRingSteps = 1 << 20

// widestRing returns the bandwidth of the ring through all GPUs whose narrowest step is the widest, 0 if there is no
// ring. bw holds the bandwidth of each pair, the same both ways and 0 from a GPU to itself.
func widestRing(bw [][]float64) float64 {
	widths := slices.Concat(bw...)
	slices.Sort(widths)
	widths = slices.Compact(widths)
	// Steps of width 0 always make a ring, so the search ends above the first entry.
	tooWide := sort.Search(len(widths), func(i int) bool { return !hasRing(bw, widths[i]) })
	return widths[tooWide-1]
}

// hasRing reports whether it finds a ring without a step narrower than width.
func hasRing(bw [][]float64, width float64) bool {
	stepsLeft := maxRingSteps
	used := make([]bool, len(bw))
	var visit func(at, left int) bool
	visit = func(at, left int) bool {
		if left == 0 {
			return bw[at][0] >= width
		}
		if stepsLeft--; stepsLeft < 0 {
			return false
		}
		used[at] = true
		for next := range bw {
			if !used[next] && bw[at][next] >= width && visit(next, left-1) {
				return true
			}
		}
		used[at] = false
		return false
	}
	return visit(0, len(bw)-1)
}
