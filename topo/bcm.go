package topo

import (
	"fmt"
	"slices"
)

// A Broadcom PEX switch of generation 4 or 5 appears as a tree of two levels, although all its ports have full
// bandwidth. The PCI ID tells the upper part (level 0) from the lower ones (level 1).

const bcmFused = 0xffff // as subsystem device: already flattened

// bcmGeneration returns 4 or 5 if the PCI ID is that of a Broadcom PEX switch at a level of its tree, else 0.
func bcmGeneration(pciID uint64, level uint64) int {
	switch pciID &^ 0xfff {
	case 0x1000c0101000a000:
		return 4
	case 0x1000c03010000000 | level<<12:
		return 5
	}
	return 0
}

// flattenBCM joins each two-level switch into one node, so that the lower level does not count as a hop between its
// ports.
func flattenBCM(s *System) error {
	for i := 0; i < len(s.Nodes[NodePCI]); i++ {
		top := s.Nodes[NodePCI][i]
		gen := bcmGeneration(top.PCI.PCIID, 0)
		if gen == 0 {
			continue
		}
		if slices.ContainsFunc(top.Links, func(l Link) bool { return l.To == top }) {
			return fmt.Errorf("%s is linked to itself", top.Name())
		}
		var lower []*Node
		top.Links = slices.DeleteFunc(top.Links, func(l Link) bool {
			is := l.To.Type == NodePCI && bcmGeneration(l.To.PCI.PCIID, 1) == gen
			if is {
				lower = append(lower, l.To)
			}
			return is
		})
		for _, sub := range lower {
			adopt(top, sub)
			if len(top.Links) > MaxLinks {
				return fmt.Errorf("%s has more than %d links", top.Name(), MaxLinks)
			}
			s.remove(sub)
		}
		top.PCI.PCIID |= bcmFused
		i = -1 // removing nodes has moved the others
	}
	return nil
}

// adopt moves the links of sub, and those that come back to it, to top.
func adopt(top, sub *Node) {
	for _, l := range sub.Links {
		if l.To == top {
			continue
		}
		top.Links = append(top.Links, l)
		for i := range l.To.Links {
			if l.To.Links[i].To == sub {
				l.To.Links[i].To = top
				break
			}
		}
	}
}
