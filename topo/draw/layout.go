package draw

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// Sizes in pixels.
const (
	boxWidth   = 92
	lineHeight = 15
	boxPadding = 6
	gapX       = 14
	gapLevel   = 56
	gapTree    = 40 // between the trees of two CPUs
	margin     = 24
	legend     = 16 // height, below the picture
)

// rect is where a box is drawn: its middle and its size.
type rect struct{ x, y, w, h float64 }

func (r rect) top() float64    { return r.y - r.h/2 }
func (r rect) bottom() float64 { return r.y + r.h/2 }

// layout is a tree for each CPU, side by side: the CPU above, PCI switches below each other, and all GPUs and NICs in one
// row at the bottom. The NVSwitches are a bar below the GPUs.
type layout struct {
	picture
	at            []rect
	children      [][]int
	width, height float64
	deviceRow     float64 // middle of the row of GPUs and NICs
	switchRow     float64 // middle of the bar, 0 without
}

func newLayout(p picture) *layout {
	l := &layout{picture: p, at: make([]rect, len(p.boxes)), children: make([][]int, len(p.boxes))}
	seen := make([]bool, len(p.boxes))
	var roots []int
	for i, b := range p.boxes {
		if b.node.Type == topo.NodeCPU {
			roots, seen[i] = append(roots, i), true
		}
	}
	slices.SortStableFunc(roots, func(a, b int) int { return p.boxes[a].node.ID.System() - p.boxes[b].node.ID.System() })
	levels := 0
	for _, r := range roots {
		levels = max(levels, l.adopt(r, seen))
	}
	devices := 0
	for _, b := range p.boxes {
		devices = max(devices, len(b.text))
	}
	deviceHeight := float64(devices)*lineHeight + 2*boxPadding
	levelHeight := 2*lineHeight + 2*boxPadding + float64(gapLevel)
	l.deviceRow = margin + float64(levels)*levelHeight + deviceHeight/2
	x := float64(margin)
	for _, r := range roots {
		x = l.put(r, 0, x, levelHeight) + gapTree
	}
	for i, s := range seen {
		if !s && p.boxes[i].node.Type != topo.NodeNVS { // hangs off no CPU
			x = l.put(i, 0, x, levelHeight) + gapX
		}
	}
	l.width = max(x-gapTree+margin, 280)
	l.height = l.deviceRow + deviceHeight/2 + l.arcDepth() + margin + legend
	for i, b := range p.boxes {
		if b.node.Type == topo.NodeNVS {
			l.switchRow = l.deviceRow + deviceHeight/2 + gapLevel
			l.at[i] = rect{l.width / 2, l.switchRow, l.width - 2*margin, 2 * lineHeight}
			l.height = max(l.height, l.switchRow+lineHeight+margin+legend)
		}
	}
	return l
}

// adopt makes children of what hangs below a box on PCI or C2C links, and returns the levels of the tree above the
// devices.
func (l *layout) adopt(i int, seen []bool) int {
	levels := 1
	for _, link := range l.boxes[i].node.Links {
		if link.Type != topo.LinkPCI && link.Type != topo.LinkC2C || link.To.Type == topo.NodeCPU {
			continue
		}
		c := slices.IndexFunc(l.boxes, func(b box) bool { return b.node == link.To })
		if c < 0 || seen[c] {
			continue
		}
		seen[c] = true
		l.children[i] = append(l.children[i], c)
		if t := link.To.Type; t == topo.NodePCI || t == topo.NodeCXB {
			levels = max(levels, 1+l.adopt(c, seen))
		}
	}
	// Devices of one switch together and in order, so that lines cross as little as possible.
	slices.SortStableFunc(l.children[i], func(a, b int) int {
		return int(l.boxes[a].node.ID.Local()>>4) - int(l.boxes[b].node.ID.Local()>>4)
	})
	return levels
}

// put places a tree from x on to the right and returns where it ends.
func (l *layout) put(i, level int, x, levelHeight float64) float64 {
	b := l.boxes[i]
	h := float64(len(b.text))*lineHeight + 2*boxPadding
	y := margin + float64(level)*levelHeight + lineHeight + boxPadding
	if b.node.Type == topo.NodeDEV || b.node.Type == topo.NodeNIC {
		y = l.deviceRow
	}
	end := x
	for k, c := range l.children[i] {
		if k > 0 {
			end += gapX
		}
		end = l.put(c, level+1, end, levelHeight)
	}
	end = max(end, x+boxWidth)
	l.at[i] = rect{(x + end) / 2, y, boxWidth, h}
	return end
}

// arcDepth is the room for NVLinks between GPUs, which hang below the row of devices.
func (l *layout) arcDepth() float64 {
	depth := 0.0
	for _, k := range l.lines {
		if k.kind == topo.LinkNVL && l.boxes[k.a].node.Type == topo.NodeDEV && l.boxes[k.b].node.Type == topo.NodeDEV {
			depth = max(depth, arc(l.at[k.a], l.at[k.b]))
		}
	}
	return depth
}

// arc is how far the curve between two boxes hangs down.
func arc(a, b rect) float64 { return 24 + max(a.x-b.x, b.x-a.x)*0.12 }
