package detect

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

// trim drops PCI devices, CPUs and NICs that hold no GPU and no port of the machine. It reports whether e holds any.
func (d *detector) trim(e *topo.Element) bool {
	if d.keep[e] {
		return true
	}
	kept := false
	e.Children = slices.DeleteFunc(e.Children, func(c *topo.Element) bool {
		if d.trim(c) {
			kept = true
			return false
		}
		return slices.Contains([]string{"pci", "cpu", "nic", "net"}, c.Name)
	})
	return kept
}

// merge adds to dst what src has and dst has not. Elements are the same when all their attributes are.
func merge(dst, src *topo.Element) {
	for _, c := range src.Children {
		at := slices.IndexFunc(dst.Children, func(o *topo.Element) bool { return sameAttrs(o, c) })
		if at < 0 {
			dst.Add(c)
		} else {
			merge(dst.Children[at], c)
		}
	}
}

func sameAttrs(a, b *topo.Element) bool {
	if a.Name != b.Name || len(a.Attrs) != len(b.Attrs) {
		return false
	}
	for _, attr := range a.Attrs {
		if v, ok := b.Attr(attr.Name); !ok || v != attr.Value {
			return false
		}
	}
	return true
}
