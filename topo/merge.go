package topo

// How NCCL puts a topology together from what each rank of a host sees: its own GPU, all NICs, and what they hang off.
// Detection does the same (topo/detect), and so does Only for a communicator of some of the GPUs.

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Keep removes the PCI devices, CPUs and NICs below an element in which keep is true of nothing. It reports whether it
// is true of something there.
func (e *Element) Keep(keep func(*Element) bool) bool {
	if keep(e) {
		return true
	}
	kept := false
	e.Children = slices.DeleteFunc(e.Children, func(c *Element) bool {
		if c.Keep(keep) {
			kept = true
			return false
		}
		return slices.Contains([]string{"pci", "cpu", "nic", "net"}, c.Name)
	})
	return kept
}

// Merge adds what another element has below it and this one has not. Elements are the same if all their attributes are.
func (e *Element) Merge(o *Element) {
	for _, c := range o.Children {
		at := slices.IndexFunc(e.Children, func(own *Element) bool { return sameAttrs(own, c) })
		if at < 0 {
			e.Add(c)
		} else {
			e.Children[at].Merge(c)
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

// Only is the topology that NCCL makes of this one for a communicator of some of the GPUs, which are named by their
// device numbers in the order of ranks. Each rank keeps its own GPU and all NICs, and the host's ranks merge what they
// have (graph/topo.cc, ncclTopoGetSystem). So the order of elements, which decides ties between paths, depends on the
// ranks.
func (d *Document) Only(devs []int) (*Document, error) {
	only := &Document{File: d.File}
	for rank, dev := range devs {
		root := d.Root.Clone()
		var own *Element
		var all []string
		for e := range root.All() {
			if e.Name != "gpu" || !e.Has("rank") {
				continue
			}
			number := e.Int("dev", -1)
			all = append(all, strconv.Itoa(number))
			switch {
			case number != dev:
			case own != nil:
				return nil, fmt.Errorf("%s: more than one GPU has the number %d, so numbers name no GPUs", d.File, dev)
			default:
				own = e
			}
		}
		if own == nil {
			return nil, fmt.Errorf("%s: there is no GPU %d (GPUs: %s)", d.File, dev, strings.Join(all, ", "))
		}
		own.Set("rank", strconv.Itoa(rank))
		root.Keep(func(e *Element) bool { return e == own || e.Name == "net" })
		if only.Root == nil {
			only.Root = root
		} else {
			only.Root.Merge(root)
		}
	}
	return only, nil
}
