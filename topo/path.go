package topo

import "iter"

// Path is the way from one node to another. The zero value is not a path; where there is none the type is PathDIS.
type Path struct {
	Type PathType
	Hops int     // links passed
	BW   float32 // GB/s, of the narrowest link

	first *hop
}

// hop is one step of a path. Paths to one target share their tails, so memory grows with the number of paths and not
// with their lengths.
type hop struct {
	link *Link
	rest *hop
}

var noPath = Path{Type: PathDIS}

// Links yields the links of the path in order. Each leads to the next node, the last one to the target.
func (p Path) Links() iter.Seq[*Link] {
	return func(yield func(*Link) bool) {
		for h := p.first; h != nil; h = h.rest {
			if !yield(h.link) {
				return
			}
		}
	}
}

// node returns the i-th node after the start, or nil if the path is shorter.
func (p *Path) node(i int) *Node {
	for h := p.first; h != nil; h = h.rest {
		if i == 0 {
			return h.link.To
		}
		i--
	}
	return nil
}

// join returns the path that goes on with another.
func (p *Path) join(next *Path) *hop {
	return appendHops(p.first, next.first)
}

func appendHops(h, tail *hop) *hop {
	if h == nil {
		return tail
	}
	return &hop{h.link, appendHops(h.rest, tail)}
}

// Path returns the best path between two nodes of the system. Targets may be of type CPU, DEV, GPU, NET, GIN, RMA and
// NVS; for others, and before ComputePaths, there is none.
func (s *System) Path(from, to *Node) Path { return *from.path(to) }

// path is the place of the path to a target, for reading. Where no search has come near the target there is no place.
func (n *Node) path(to *Node) *Path {
	if n.paths[to.Type] == nil {
		p := noPath
		return &p
	}
	return &n.paths[to.Type][to.Index]
}
