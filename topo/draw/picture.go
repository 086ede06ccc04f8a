package draw

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// box is one device.
type box struct {
	node *topo.Node
	text []string
}

// line joins two boxes. Links that a file describes at one end only are lines too.
type line struct {
	a, b int // indices of boxes
	kind topo.LinkType
	bw   float32 // GB/s from a to b
}

func (l line) label() string { return fmt.Sprintf("%.4g", l.bw) }

// picture is what the graph shows.
type picture struct {
	boxes []box
	lines []line
	hosts int
}

func newPicture(s *topo.System) picture {
	p := picture{hosts: max(1, len(s.HostHashes))}
	at := map[*topo.Node]int{}
	for _, t := range []topo.NodeType{topo.NodeCPU, topo.NodePCI, topo.NodeDEV, topo.NodeCXB, topo.NodeNIC, topo.NodeNVS} {
		for _, n := range s.Nodes[t] {
			at[n] = len(p.boxes)
			b := box{n, text(n)}
			if t == topo.NodeCPU && p.hosts > 1 {
				b.text = append([]string{fmt.Sprintf("host %d", n.ID.System())}, b.text...)
			}
			p.boxes = append(p.boxes, b)
		}
	}
	seen := map[[3]int]bool{}
	for a, x := range p.boxes {
		for _, l := range x.node.Links {
			b, drawn := at[l.To]
			key := [3]int{min(a, b), max(a, b), int(l.Type)}
			if !drawn || seen[key] {
				continue
			}
			seen[key] = true
			p.lines = append(p.lines, line{a, b, l.Type, l.BW})
		}
	}
	return p
}

// text is what is written into a box.
func text(n *topo.Node) []string {
	switch n.Type {
	case topo.NodeCPU:
		return []string{"CPU " + fmt.Sprint(n.ID.Local())}
	case topo.NodePCI:
		return []string{"PCI switch", n.ID.BusID()}
	case topo.NodeNVS:
		return []string{"NVSwitch"}
	case topo.NodeCXB:
		return []string{"C2C"}
	case topo.NodeDEV:
		var names []string
		for _, l := range n.Links {
			if l.To.Type == topo.NodeGPU {
				names = append(names, l.To.Label())
			}
		}
		slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
		return []string{strings.Join(names, " "), fmt.Sprintf("sm_%d", n.Dev.SM)}
	}
	var lines []string
	for _, l := range n.Links {
		if l.To.Type == topo.NodeNET {
			lines = append(lines, l.To.Label(), fmt.Sprintf("%.4g GB/s", l.To.Net.BW))
		}
	}
	if len(lines) == 0 {
		return []string{"NIC"}
	}
	return lines
}
