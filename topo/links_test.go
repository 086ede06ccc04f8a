package topo

import (
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo/internal/cnum"
)

// links computes what each pair of a topology uses, in the tables of p2p_gdr.json: [source][target].
func links(doc *Document, set Settings) (map[string]any, error) {
	tables := map[string]any{}
	for i, after := range []string{"afterTrimSingle", "afterTrimMulti"} {
		s, err := Build(doc, set)
		if err != nil {
			return nil, err
		}
		rank, ranks := s.Whole()
		if err := s.ComputePaths(); err != nil {
			return nil, err
		}
		if i == 0 {
			s.linkTables(tables)
		}
		s.Trim(rank, ranks*(i+1))
		if err := s.ComputePaths(); err != nil {
			return nil, err
		}
		tables[after] = map[string]any{
			"inter": cnum.Bit(s.Inter), "ranks": s.Ranks(),
			"gpuGpu": s.paths(NodeGPU, NodeGPU), "gpuNet": s.paths(NodeGPU, NodeNET),
			"netGpu": s.paths(NodeNET, NodeGPU),
		}
	}
	return tables, nil
}

func (s *System) linkTables(tables map[string]any) {
	gpus, nets := s.Nodes[NodeGPU], s.Nodes[NodeNET]
	table := func(name string, targets []*Node, use func(gpu, to *Node) int) {
		rows := [][]int{}
		for _, gpu := range gpus {
			row := []int{}
			for _, to := range targets {
				row = append(row, use(gpu, to))
			}
			rows = append(rows, row)
		}
		tables[name] = rows
	}
	table("p2p", gpus, func(a, b *Node) int { return cnum.Bit(s.CheckP2P(a, b).OK) })
	table("read", gpus, func(a, b *Node) int { return cnum.Bit(s.CheckP2P(a, b).Read) })
	table("intermediate", gpus, func(a, b *Node) int { return s.CheckP2P(a, b).Via })
	table("cudaP2p", gpus, func(a, b *Node) int { return 1 }) // the driver is taken to allow it
	table("useNet", gpus, func(a, b *Node) int { return cnum.Bit(s.NetIsFaster(a, b)) })
	table("transportP2p", gpus, func(a, b *Node) int {
		return cnum.Bit(a != b && s.UsesP2P(a, b)) // a GPU needs no transport to itself
	})
	table("transportShm", gpus, func(a, b *Node) int { return cnum.Bit(a != b && s.UsesSHM(a, b)) })
	for name, send := range map[string]bool{"gdrRecv": false, "gdrSend": true} {
		table(name, nets, func(gpu, net *Node) int {
			return int(s.CheckGDR(gpu, net, send).Mode)
		})
	}
	names, own := []string{}, []int{}
	for _, net := range nets {
		names, own = append(names, net.Name()), append(own, net.Net.LocalGPU)
	}
	tables["ranks"], tables["nets"], tables["localGpu"] = s.Ranks(), names, own
	local := [][]int{}
	for _, gpu := range gpus {
		row := []int{-1, -1, -1, -1} // of the first channels
		for c := range row {
			if net := s.LocalNet(gpu, c); net != nil {
				row[c] = net.Net.Dev
			}
		}
		local = append(local, row)
	}
	tables["localNet"] = local
	tables["gpuGpu"], tables["gpuNet"] = s.paths(NodeGPU, NodeGPU), s.paths(NodeGPU, NodeNET)
	tables["netGpu"], tables["gpuCpu"] = s.paths(NodeNET, NodeGPU), s.paths(NodeGPU, NodeCPU)
}

// paths lists the paths from all nodes of one type to all of another; nil where no search has come near.
func (s *System) paths(from, to NodeType) [][]*PathEntry {
	m := [][]*PathEntry{}
	for _, a := range s.Nodes[from] {
		row := slices.Repeat([]*PathEntry{nil}, len(s.Nodes[to]))
		for i, p := range a.paths[to] {
			row[i] = &PathEntry{Type: p.Type, Hops: p.Hops, BW: p.BW}
		}
		m = append(m, row)
	}
	return m
}
