// Package draw writes a system as a graph in DOT, from which Graphviz makes a picture.
//
// It draws devices as they are plugged in, not as NCCL's nodes: a GPU is one box with all its ranks, a NIC one box with
// all its ports. The numbers at the lines are GB/s of one direction.
package draw

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// drawn are the types of nodes that become boxes, with the shapes of these, in the order in which they are numbered.
var drawn = []struct {
	kind  topo.NodeType
	shape string
}{
	{topo.NodeCPU, "box"}, {topo.NodePCI, "box"}, {topo.NodeDEV, "component"}, {topo.NodeCXB, "ellipse"},
	{topo.NodeNIC, "box"},
	{topo.NodeNVS, "hexagon"},
}

var lineStyles = map[topo.LinkType]string{
	topo.LinkNVL: `, color="#2f7d32", penwidth=2`, topo.LinkC2C: `, color="#8a4b08", penwidth=3`,
	topo.LinkSYS: `, style=dashed`,
}

// DOT writes the system in the language of Graphviz.
func DOT(w io.Writer, s *topo.System) error {
	number := map[*topo.Node]int{}
	for _, d := range drawn {
		for _, n := range s.Nodes[d.kind] {
			number[n] = len(number)
		}
	}
	hosts := max(1, len(s.HostHashes))
	out := bufio.NewWriter(w)
	boxes := func(host int, nvSwitch bool) {
		for _, d := range drawn {
			for _, n := range s.Nodes[d.kind] {
				if n.ID.System() != host || (d.kind == topo.NodeNVS) != nvSwitch {
					continue
				}
				label := text(n)
				if d.kind == topo.NodeCPU && hosts > 1 {
					label = fmt.Sprintf("host %d\n%s", host, label)
				}
				quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
				fmt.Fprintf(out, "  n%d [shape=%s, label=\"%s\"];\n", number[n], d.shape, quoted.Replace(label))
			}
		}
	}
	fmt.Fprintln(out,
		"graph topology {\n  node [fontname=\"sans-serif\"];\n  edge [fontname=\"sans-serif\", fontsize=9];")
	for host := range hosts {
		if hosts > 1 {
			fmt.Fprintf(out, "  subgraph cluster_%d {\n  label=\"host %d\";\n", host, host)
		}
		boxes(host, false)
		if hosts > 1 {
			fmt.Fprintln(out, "  }")
		}
	}
	boxes(0, true) // the NVSwitches belong to no host
	lines(out, s, number)
	fmt.Fprintln(out, "}")
	return out.Flush()
}

// lines writes each link once, also those that a file describes at one end only.
func lines(out io.Writer, s *topo.System, number map[*topo.Node]int) {
	seen := map[[3]int]bool{}
	for _, d := range drawn {
		for _, n := range s.Nodes[d.kind] {
			for _, l := range n.Links {
				a, b := number[n], number[l.To]
				link := [3]int{min(a, b), max(a, b), int(l.Type)}
				if _, ok := number[l.To]; !ok || seen[link] {
					continue
				}
				seen[link] = true
				if l.Type == topo.LinkLOC {
					fmt.Fprintf(out, "  n%d -- n%d [style=dotted];\n", a, b)
					continue
				}
				fmt.Fprintf(out, "  n%d -- n%d [label=\"%s %.4g\"%s];\n", a, b, l.Type, l.BW, lineStyles[l.Type])
			}
		}
	}
}

// text is what stands in a box.
func text(n *topo.Node) string {
	switch n.Type {
	case topo.NodeCPU:
		return fmt.Sprint("CPU ", n.ID.Local())
	case topo.NodePCI:
		return "PCI switch\n" + n.ID.BusID()
	case topo.NodeNVS:
		return "NVSwitch"
	case topo.NodeCXB:
		return "C2C"
	case topo.NodeDEV:
		var ranks []string
		for _, l := range n.Links {
			if l.To.Type == topo.NodeGPU {
				ranks = append(ranks, l.To.Label())
			}
		}
		slices.SortFunc(ranks, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
		return fmt.Sprintf("%s\nsm_%d", strings.Join(ranks, " "), n.Dev.SM)
	}
	var ports []string
	for _, l := range n.Links {
		if l.To.Type == topo.NodeNET {
			ports = append(ports, fmt.Sprintf("%s\n%.4g GB/s", l.To.Label(), l.To.Net.BW))
		}
	}
	return cmp.Or(strings.Join(ports, "\n"), "NIC")
}
