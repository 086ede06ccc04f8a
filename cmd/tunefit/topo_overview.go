package main

import (
	"fmt"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
)

// topoOverview is what `tunefit topo` shows.
type topoOverview struct {
	Source      string       `json:"source"`
	GPUs        []gpuEntry   `json:"gpus"`
	Columns     []string     `json:"columns"` // of Matrix: GPUs, then network ports
	Matrix      [][]pathCell `json:"matrix"`  // a row per GPU
	NICs        []nicEntry   `json:"nics"`
	Summary     topo.Summary `json:"summary"`
	Fingerprint string       `json:"fingerprint"`
}

type gpuEntry struct {
	Name  string `json:"name"`
	Rank  int    `json:"rank"`
	Dev   int    `json:"dev"` // NVML index
	SM    int    `json:"sm"`
	BusID string `json:"bus_id"`
	CPU   string `json:"cpu"` // nearest
	NIC   string `json:"nic"` // that its first channel uses; "" without NICs
}

type pathCell struct {
	Type topo.PathType `json:"type"`
	Hops int           `json:"hops"`
	GBps topo.Float32  `json:"gbps"`
}

type nicEntry struct {
	Name     string  `json:"name"`
	Dev      int     `json:"dev"` // as NCCL numbers them; -1: not used by NCCL
	PCIPath  string  `json:"pci_path,omitempty"`
	BusID    string  `json:"bus_id,omitempty"`
	GUID     string  `json:"guid"`
	Port     int     `json:"port"`
	Mbps     int     `json:"mbps"`
	Latency  float64 `json:"latency_us"`
	MaxComms int     `json:"max_comms"`
	Memory   string  `json:"memory"` // that it can send from and receive into: host, cuda, dmabuf
	GPU      string  `json:"gpu"`    // that it serves first; "" none
}

func (m *topoMachine) overview() (*topoOverview, error) {
	o := &topoOverview{Source: m.source.String()}
	s := m.sys
	for _, t := range []topo.NodeType{topo.NodeGPU, topo.NodeNET} {
		for _, n := range s.Nodes[t] {
			o.Columns = append(o.Columns, s.Label(n))
		}
	}
	for _, g := range s.Nodes[topo.NodeGPU] {
		e := gpuEntry{Name: g.Label(), Rank: g.GPU.Rank, Dev: g.GPU.Dev, SM: g.GPU.SM, BusID: g.GPU.Device.ID.BusID()}
		cpu, err := s.LocalCPU(g)
		if err != nil {
			return nil, err
		}
		e.CPU = s.Label(cpu)
		if len(s.Nodes[topo.NodeNET]) > 0 {
			net, err := s.LocalNet(g, 0)
			if err != nil {
				return nil, err
			}
			e.NIC = s.Label(net)
		}
		o.GPUs = append(o.GPUs, e)
		var row []pathCell
		for _, t := range []topo.NodeType{topo.NodeGPU, topo.NodeNET} {
			for _, to := range s.Nodes[t] {
				p := s.Path(g, to)
				row = append(row, pathCell{p.Type, p.Hops, topo.Float32(p.BW)})
			}
		}
		o.Matrix = append(o.Matrix, row)
	}
	o.NICs = m.nics()
	o.Fingerprint = string(s.Fingerprint())
	var err error
	o.Summary, err = s.Summarize()
	return o, err
}

// nics lists what net plugins tell. A detected machine knows more of them than a file does.
func (m *topoMachine) nics() []nicEntry {
	all := m.doc.NICs()
	if m.source.File == "" {
		all = detect.NICs(machineRoot)
	}
	var entries []nicEntry
	for i, n := range all {
		e := nicEntry{
			Name: n.Name, Dev: -1, PCIPath: n.PCIPath, BusID: n.BusID, GUID: fmt.Sprintf("%#x", n.GUID), Port: n.Port,
			Mbps:    n.Mbps,
			Latency: n.Latency, MaxComms: n.MaxComms, Memory: n.PtrSupport.String(),
		}
		if ports := m.sys.Nodes[topo.NodeNET]; n.InUse {
			at := slices.IndexFunc(ports, func(p *topo.Node) bool { return p.Net.Name == n.Name && n.Name != "" })
			if m.source.File != "" && i < len(ports) && ports[i].Net.Name == n.Name {
				at = i // several hosts repeat names
			}
			if at >= 0 {
				e.Dev = ports[at].Net.Dev
				if g := ports[at].Net.LocalGPU; g >= 0 && g < len(m.sys.Nodes[topo.NodeGPU]) {
					e.GPU = m.sys.Nodes[topo.NodeGPU][g].Label()
				}
			}
		}
		entries = append(entries, e)
	}
	return entries
}
