package draw

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

var boxColors = map[topo.NodeType]string{
	topo.NodeCPU: "#dbe7f6", topo.NodePCI: "#ececec", topo.NodeDEV: "#dff0d8", topo.NodeCXB: "#f6e3cf", topo.NodeNIC: "#fdf0cd", topo.NodeNVS: "#cfe8cf",
}

// stroke is how a kind of link is drawn.
type stroke struct {
	color  string
	width  float64
	dashes string
}

var strokes = map[topo.LinkType]stroke{
	topo.LinkLOC: {"#888888", 1, "2 3"},
	topo.LinkNVL: {"#2f7d32", 2, ""},
	topo.LinkC2C: {"#b5651d", 3, ""},
	topo.LinkPCI: {"#444444", 1.2, ""},
	topo.LinkSYS: {"#2a5db0", 1.5, "6 3"},
}

// SVG writes the system as a picture.
func SVG(w io.Writer, s *topo.System) error {
	l := newLayout(newPicture(s))
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12">`+"\n",
		l.width, l.height, l.width, l.height)
	fmt.Fprintln(out, `<rect width="100%" height="100%" fill="white"/>`)
	var labels []label
	for _, k := range l.lines {
		if drawn, ok := l.drawLine(out, k); ok {
			labels = append(labels, drawn)
		}
	}
	for i, b := range l.boxes {
		l.drawBox(out, b, l.at[i])
	}
	for _, k := range labels { // over all lines
		writeText(out, k.x, k.y, smallText, k.color, k.text)
	}
	writeLegend(out, l.height-margin/2)
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}

func (l *layout) drawBox(w io.Writer, b box, r rect) {
	fmt.Fprintf(w, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" rx="4" fill="%s" stroke="#555555"/>`+"\n",
		r.x-r.w/2, r.top(), r.w, r.h, boxColors[b.node.Type])
	y := r.y - float64(len(b.text)-1)*lineHeight/2 + 4
	for i, t := range b.text {
		writeText(w, r.x, y+float64(i)*lineHeight, normalText, "#111111", t)
	}
}

// label is the number at a line.
type label struct {
	x, y        float64
	color, text string
}

// drawLine returns the label that the line should get, if any. Of the links between CPUs, which are all alike, those
// between neighbours are enough.
func (l *layout) drawLine(w io.Writer, k line) (drawn label, ok bool) {
	if k.kind == topo.LinkSYS && !l.neighbours(k.a, k.b) {
		return label{}, false
	}
	a, b := l.at[k.a], l.at[k.b]
	style := strokes[k.kind]
	attrs := fmt.Sprintf(`fill="none" stroke="%s" stroke-width="%g"`, style.color, style.width)
	if style.dashes != "" {
		attrs += fmt.Sprintf(` stroke-dasharray="%s"`, style.dashes)
	}
	typeA, typeB := l.boxes[k.a].node.Type, l.boxes[k.b].node.Type
	var x, y float64 // of the label
	switch {
	case typeA == topo.NodeNVS || typeB == topo.NodeNVS:
		if typeA == topo.NodeNVS {
			a, b = b, a
		}
		fmt.Fprintf(w, `<path d="M%.1f %.1f V%.1f" %s/>`+"\n", a.x, a.bottom(), b.top(), attrs)
		x, y = a.x, (a.bottom()+b.top())/2
	case a.y == b.y && typeA == topo.NodeDEV: // side by side: an arc below
		deep := a.bottom() + arc(a, b)
		fmt.Fprintf(w, `<path d="M%.1f %.1f C%.1f %.1f %.1f %.1f %.1f %.1f" %s/>`+"\n", a.x, a.bottom(), a.x, deep, b.x, deep, b.x, b.bottom(), attrs)
		x, y = (a.x+b.x)/2, a.bottom()+0.75*arc(a, b)
	case a.y == b.y:
		if a.x > b.x {
			a, b = b, a
		}
		fmt.Fprintf(w, `<path d="M%.1f %.1f H%.1f" %s/>`+"\n", a.x+a.w/2, a.y, b.x-b.w/2, attrs)
		x, y = (a.x+b.x)/2, a.y-6
	default:
		if a.y > b.y {
			a, b = b, a
		}
		elbow := a.bottom() + gapLevel/3
		shift := 0.0
		if k.kind == topo.LinkC2C || k.kind == topo.LinkNVL { // beside the PCI link of the same GPU
			shift = 10
		}
		fmt.Fprintf(w, `<path d="M%.1f %.1f V%.1f H%.1f V%.1f" %s/>`+"\n", a.x+shift, a.bottom(), elbow+shift/2, b.x+shift, b.top(), attrs)
		x, y = b.x+shift*2.2, b.top()-14-shift
	}
	return label{x, y, style.color, k.label()}, k.kind != topo.LinkLOC
}

// neighbours reports whether no other CPU stands between two.
func (l *layout) neighbours(a, b int) bool {
	left, right := min(l.at[a].x, l.at[b].x), max(l.at[a].x, l.at[b].x)
	for i, other := range l.boxes {
		if x := l.at[i].x; other.node.Type == topo.NodeCPU && x > left && x < right {
			return false
		}
	}
	return true
}

// writeLegend names the colours of the links.
func writeLegend(w io.Writer, y float64) {
	x := float64(margin)
	for _, k := range []topo.LinkType{topo.LinkPCI, topo.LinkNVL, topo.LinkC2C, topo.LinkSYS} {
		fmt.Fprintf(w, `<path d="M%.1f %.1f h16" stroke="%s" stroke-width="%g"/>`+"\n", x, y-4, strokes[k].color, strokes[k].width)
		fmt.Fprintf(w, `<text x="%.1f" y="%.1f" font-size="%d" fill="#111111">%s</text>`+"\n", x+20, y, smallText, k)
		x += 52
	}
	fmt.Fprintf(w, `<text x="%.1f" y="%.1f" font-size="%d" fill="#111111">GB/s</text>`+"\n", x, y, smallText)
}

const (
	normalText = 12
	smallText  = 10
)

// writeText centres text on x, on a white ground that keeps it readable over lines.
func writeText(w io.Writer, x, y float64, size int, color, text string) {
	var escaped strings.Builder
	// Writing to a strings.Builder cannot fail.
	_ = xml.EscapeText(&escaped, []byte(text))
	halo := ""
	if size == smallText {
		halo = ` stroke="white" stroke-width="3" paint-order="stroke"`
	}
	fmt.Fprintf(w, `<text x="%.1f" y="%.1f" font-size="%d" text-anchor="middle" fill="%s"%s>%s</text>`+"\n", x, y, size, color, halo, escaped.String())
}
