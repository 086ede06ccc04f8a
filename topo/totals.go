package topo

// Totals computes the bandwidths that bound NCCL's channel search. MaxBW bounds one channel: it is the widest path
// from any device to another, or to the network if the communicator has ranks beyond the system. TotalBW bounds all
// channels together: it is the most that the links of one device carry.
func (s *System) Totals() *Totals {
	t := &Totals{GPUs: len(s.Nodes[NodeGPU])}
	if s.Inter {
		t.Inter = 1
	} else if t.GPUs == 1 {
		t.MaxBW, t.TotalBW = bwLocal, bwLocal
		return t
	}
	target := NodeDEV
	if s.Inter {
		target = NodeNET
	}
	for _, dev := range s.Nodes[NodeDEV] {
		for _, p := range dev.paths[target] {
			if p.Hops > 0 {
				t.MaxBW = max(t.MaxBW, p.BW)
			}
		}
		var nvLink, pci float32
		for _, l := range dev.Links {
			switch l.Type {
			case LinkNVL:
				nvLink += l.BW
			case LinkPCI:
				pci = l.BW
			}
		}
		t.TotalBW = max(t.TotalBW, Float32(nvLink), Float32(pci))
	}
	return t
}
