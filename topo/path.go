package topo

// Path is the way from one node to another. The zero value is not a path; where there is none the type is PathDIS.
type Path struct {
	Type  PathType `json:"type"`
	Hops  int      `json:"hops"` // links passed
	BW    Float32  `json:"gbps"` // GB/s, of the narrowest link
	Links []*Link  `json:"-"`    // in order; each leads to the next node, the last one to the target
}

var noPath = Path{Type: PathDIS}

// Path returns the best path between two nodes of the system. Targets may be of type CPU, DEV, GPU, NET, GIN, RMA and
// NVS; for others, and before ComputePaths, there is none.
func (s *System) Path(from, to *Node) Path { return *from.path(to) }

// path returns the path to a target. The caller may change it, unless no search has reached the target.
func (n *Node) path(to *Node) *Path {
	if n.paths[to.Type] == nil {
		p := noPath
		return &p
	}
	return &n.paths[to.Type][to.Index]
}
