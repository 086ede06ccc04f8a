package topo

import "slices"

// trim drops PCI devices, CPUs and NICs that carry nothing of the machine, and reports whether anything is left below e.
func (d *detector) trim(e *Element) bool {
	if d.keep[e] {
		return true
	}
	kept := false
	e.Children = slices.DeleteFunc(e.Children, func(c *Element) bool {
		if d.trim(c) {
			kept = true
			return false
		}
		return slices.Contains([]string{"pci", "cpu", "nic", "net"}, c.Name)
	})
	return kept
}

func clone(e *Element) *Element {
	c := *e
	c.Attrs = slices.Clone(e.Attrs)
	c.Children = make([]*Element, len(e.Children))
	for i, child := range e.Children {
		c.Children[i] = clone(child)
	}
	return &c
}

// merge adds to dst what src has and dst has not. Elements are the same when all their attributes are.
func merge(dst, src *Element) {
	for _, c := range src.Children {
		at := slices.IndexFunc(dst.Children, func(o *Element) bool { return sameAttrs(o, c) })
		if at < 0 {
			dst.Add(c)
		} else {
			merge(dst.Children[at], c)
		}
	}
}

func sameAttrs(a, b *Element) bool {
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
