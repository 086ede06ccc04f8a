package draw

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

var dotShapes = map[topo.NodeType]string{
	topo.NodeCPU: "box", topo.NodePCI: "box", topo.NodeDEV: "component", topo.NodeCXB: "ellipse", topo.NodeNIC: "box", topo.NodeNVS: "hexagon",
}

var dotStyles = map[topo.LinkType]string{
	topo.LinkNVL: `color="#2f7d32", penwidth=2`, topo.LinkC2C: `color="#8a4b08", penwidth=3`, topo.LinkSYS: `style=dashed`, topo.LinkLOC: `style=dotted`,
}

// DOT writes the system in the language of Graphviz.
func DOT(w io.Writer, s *topo.System) error {
	p := newPicture(s)
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, "graph topology {\n  node [fontname=\"sans-serif\"];\n  edge [fontname=\"sans-serif\", fontsize=9];")
	for host := range p.hosts {
		if p.hosts > 1 {
			fmt.Fprintf(out, "  subgraph cluster_%d {\n  label=\"host %d\";\n", host, host)
		}
		for i, b := range p.boxes {
			if b.node.ID.System() == host && b.node.Type != topo.NodeNVS {
				writeDOTBox(out, i, b)
			}
		}
		if p.hosts > 1 {
			fmt.Fprintln(out, "  }")
		}
	}
	for i, b := range p.boxes {
		if b.node.Type == topo.NodeNVS {
			writeDOTBox(out, i, b)
		}
	}
	for _, l := range p.lines {
		style := dotStyles[l.kind]
		if style != "" {
			style = ", " + style
		}
		if l.kind == topo.LinkLOC {
			fmt.Fprintf(out, "  n%d -- n%d [%s];\n", l.a, l.b, strings.TrimPrefix(style, ", "))
			continue
		}
		fmt.Fprintf(out, "  n%d -- n%d [label=\"%s %s\"%s];\n", l.a, l.b, l.kind, l.label(), style)
	}
	fmt.Fprintln(out, "}")
	return out.Flush()
}

func writeDOTBox(w io.Writer, i int, b box) {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	lines := make([]string, len(b.text))
	for k, t := range b.text {
		lines[k] = quoted.Replace(t)
	}
	fmt.Fprintf(w, "  n%d [shape=%s, label=\"%s\"];\n", i, dotShapes[b.node.Type], strings.Join(lines, `\n`))
}
