package command

import "github.com/nccl-tuner-go/nccl-tuner-go/topo"

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
	Name    string       `json:"name"`
	Dev     int          `json:"dev"` // as NCCL numbers them
	BusID   string       `json:"bus_id,omitempty"`
	Port    int          `json:"port"`
	GBps    topo.Float32 `json:"gbps"`
	Latency topo.Float32 `json:"latency_us"`
	GDR     bool         `json:"gdr"` // offers GPUDirect RDMA
	GPU     string       `json:"gpu"` // that it serves first; "" none
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

// nics lists the network ports.
func (m *topoMachine) nics() []nicEntry {
	var all []nicEntry
	for _, n := range m.sys.Nodes[topo.NodeNET] {
		e := nicEntry{Name: m.sys.Label(n), Dev: n.Net.Dev, Port: n.Net.Port, GBps: topo.Float32(n.Net.BW),
			Latency: topo.Float32(n.Net.Latency), GDR: n.Net.GDR}
		for _, l := range n.Links {
			if id := l.To.ID; l.To.Type == topo.NodeNIC && id.Local() != 0 { // 0: not on the PCI bus
				e.BusID = id.BusID()
			}
		}
		if n.Net.LocalGPU >= 0 {
			e.GPU = m.sys.Nodes[topo.NodeGPU][n.Net.LocalGPU].Label()
		}
		all = append(all, e)
	}
	return all
}
