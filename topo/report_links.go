package topo

import "fmt"

// LinksReport says for each pair how it communicates, for JSON. Matrices are [source][target], GPUs and network ports in
// the order of Ranks and Nets. Everything but AfterTrim... is before the system is trimmed.
type LinksReport struct {
	Ranks        []int         `json:"ranks"`
	Nets         []string      `json:"nets"`
	P2P          [][]int       `json:"p2p"`          // P2P.OK
	Read         [][]int       `json:"read"`         // P2P.Read
	Intermediate [][]int       `json:"intermediate"` // P2P.Via
	CUDAP2P      [][]int       `json:"cudaP2p"`      // P2P.Driver
	UseNet       [][]int       `json:"useNet"`       // NetIsFaster
	TransportP2P [][]int       `json:"transportP2p"` // UsesP2P
	TransportSHM [][]int       `json:"transportShm"` // UsesSHM
	GDRRecv      [][]int       `json:"gdrRecv"`      // GDRMode
	GDRSend      [][]int       `json:"gdrSend"`      // GDRMode
	GPUGPU       [][]*PathEntry `json:"gpuGpu"`
	GPUNet       [][]*PathEntry `json:"gpuNet"`
	NetGPU       [][]*PathEntry `json:"netGpu"`
	GPUCPU       [][]*PathEntry `json:"gpuCpu"`
	LocalNet     [][]int       `json:"localNet"` // device number, for channels 0 to 3; -1 none
	LocalGPU     []int         `json:"localGpu"` // index of a GPU, -1 none

	AfterTrimSingle TrimReport `json:"afterTrimSingle"` // communicator of this system alone
	AfterTrimMulti  TrimReport `json:"afterTrimMulti"`  // this system is one of two alike
}

// TrimReport is what is left of a system after trimming it to a communicator.
type TrimReport struct {
	Inter  int           `json:"inter"`
	Ranks  []int         `json:"ranks"`
	GPUGPU [][]*PathEntry `json:"gpuGpu"`
	GPUNet [][]*PathEntry `json:"gpuNet"`
	NetGPU [][]*PathEntry `json:"netGpu"`
}

const localNetChannels = 4 // how many channels LinksReport.LocalNet shows

// Links computes what each pair of GPUs, and of GPU and network port, uses. peerAccess is Comm.PeerAccess.
func Links(doc *Document, opts BuildOptions, set Settings, peerAccess func(dev1, dev2 int) bool) (*LinksReport, error) {
	var r LinksReport
	for _, alone := range []bool{true, false} {
		s, err := Build(doc, opts)
		if err != nil {
			return nil, err
		}
		comm := WholeComm(s)
		comm.PeerAccess = peerAccess
		after := &r.AfterTrimSingle
		if !alone {
			comm.NRanks *= 2
			after = &r.AfterTrimMulti
		}
		if err := r.fill(s, set, comm, after); err != nil {
			return nil, fmt.Errorf("%s: %w", doc.File, err)
		}
	}
	return &r, nil
}

// fill takes a system through communicator init.
func (r *LinksReport) fill(s *System, set Settings, comm *Comm, after *TrimReport) error {
	if err := s.ComputePaths(set, comm); err != nil {
		return err
	}
	if err := r.pairs(s, set, comm); err != nil {
		return err
	}
	s.Trim(comm)
	if err := s.ComputePaths(set, comm); err != nil {
		return err
	}
	*after = TrimReport{
		Inter:  *bit(s.Inter),
		Ranks:  s.ranks(),
		GPUGPU: s.matrix(NodeGPU, NodeGPU),
		GPUNet: s.matrix(NodeGPU, NodeNET),
		NetGPU: s.matrix(NodeNET, NodeGPU),
	}
	return nil
}

func (r *LinksReport) pairs(s *System, set Settings, comm *Comm) error {
	*r = LinksReport{
		AfterTrimSingle: r.AfterTrimSingle,
		Ranks:           s.ranks(),
		Nets:            []string{},
		GPUGPU:          s.matrix(NodeGPU, NodeGPU),
		GPUNet:          s.matrix(NodeGPU, NodeNET),
		NetGPU:          s.matrix(NodeNET, NodeGPU),
		GPUCPU:          s.matrix(NodeGPU, NodeCPU),
		LocalGPU:        []int{},
	}
	for _, net := range s.Nodes[NodeNET] {
		r.Nets = append(r.Nets, net.Name())
		r.LocalGPU = append(r.LocalGPU, net.Net.LocalGPU)
	}
	for _, gpu := range s.Nodes[NodeGPU] {
		if err := r.gpuRow(s, gpu, set, comm); err != nil {
			return err
		}
		if err := r.netRow(s, gpu, set); err != nil {
			return err
		}
	}
	return nil
}

// gpuRow adds what one GPU uses towards each GPU.
func (r *LinksReport) gpuRow(s *System, gpu *Node, set Settings, comm *Comm) error {
	n := len(s.Nodes[NodeGPU])
	p2p, read, via, driver := make([]int, n), make([]int, n), make([]int, n), make([]int, n)
	useNet, transportP2P, transportSHM := make([]int, n), make([]int, n), make([]int, n)
	for i, peer := range s.Nodes[NodeGPU] {
		d, err := s.CheckP2P(gpu, peer, set, comm)
		if err != nil {
			return err
		}
		p2p[i], read[i], via[i], driver[i] = *bit(d.OK), *bit(d.Read), d.Via, *bit(d.Driver)
		useNet[i] = *bit(s.NetIsFaster(gpu, peer, set))
		if peer == gpu {
			continue
		}
		connects, err := s.UsesP2P(gpu, peer, set, comm)
		if err != nil {
			return err
		}
		transportP2P[i], transportSHM[i] = *bit(connects), *bit(s.UsesSHM(gpu, peer, set))
	}
	r.P2P, r.Read, r.Intermediate, r.CUDAP2P = append(r.P2P, p2p), append(r.Read, read), append(r.Intermediate, via), append(r.CUDAP2P, driver)
	r.UseNet, r.TransportP2P, r.TransportSHM = append(r.UseNet, useNet), append(r.TransportP2P, transportP2P), append(r.TransportSHM, transportSHM)
	return nil
}

// netRow adds what one GPU uses towards each network port.
func (r *LinksReport) netRow(s *System, gpu *Node, set Settings) error {
	n := len(s.Nodes[NodeNET])
	recv, send, local := make([]int, n), make([]int, n), make([]int, localNetChannels)
	for i, net := range s.Nodes[NodeNET] {
		in, err := s.CheckGDR(gpu, net, false, set)
		if err != nil {
			return err
		}
		out, err := s.CheckGDR(gpu, net, true, set)
		if err != nil {
			return err
		}
		recv[i], send[i] = int(in), int(out)
	}
	for c := range local {
		local[c] = -1
		if net, err := s.LocalNet(gpu, c, set.NetDevs); err == nil {
			local[c] = net.Net.Dev
		}
	}
	r.GDRRecv, r.GDRSend, r.LocalNet = append(r.GDRRecv, recv), append(r.GDRSend, send), append(r.LocalNet, local)
	return nil
}

func (s *System) ranks() []int {
	ranks := []int{}
	for _, g := range s.Nodes[NodeGPU] {
		ranks = append(ranks, g.GPU.Rank)
	}
	return ranks
}

// matrix lists the paths from all nodes of one type to all of another; nil where no search has come near.
func (s *System) matrix(from, to NodeType) [][]*PathEntry {
	m := [][]*PathEntry{}
	for _, a := range s.Nodes[from] {
		row := make([]*PathEntry, len(s.Nodes[to]))
		for i, p := range a.paths[to] {
			row[i] = &PathEntry{Type: p.Type, Hops: p.Hops, BW: Float32(p.BW)}
		}
		m = append(m, row)
	}
	return m
}
