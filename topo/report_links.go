package topo

import (
	"fmt"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo/internal/cnum"
)

// LinksReport says for each pair how it communicates, for JSON. Matrices are [source][target], GPUs and network ports in
// the order of Ranks and Nets. Everything but AfterTrim... is before the system is trimmed.
type LinksReport struct {
	Ranks        []int          `json:"ranks"`
	Nets         []string       `json:"nets"`
	P2P          [][]int        `json:"p2p"`          // P2P.OK
	Read         [][]int        `json:"read"`         // P2P.Read
	Intermediate [][]int        `json:"intermediate"` // P2P.Via
	CUDAP2P      [][]int        `json:"cudaP2p"`      // 1: the driver is taken to allow it
	UseNet       [][]int        `json:"useNet"`       // NetIsFaster
	TransportP2P [][]int        `json:"transportP2p"` // UsesP2P
	TransportSHM [][]int        `json:"transportShm"` // UsesSHM
	GDRRecv      [][]int        `json:"gdrRecv"`      // GDRMode
	GDRSend      [][]int        `json:"gdrSend"`      // GDRMode
	GPUGPU       [][]*PathEntry `json:"gpuGpu"`
	GPUNet       [][]*PathEntry `json:"gpuNet"`
	NetGPU       [][]*PathEntry `json:"netGpu"`
	GPUCPU       [][]*PathEntry `json:"gpuCpu"`
	LocalNet     [][]int        `json:"localNet"` // device number, for channels 0 to 3; -1 none
	LocalGPU     []int          `json:"localGpu"` // index of a GPU, -1 none

	AfterTrimSingle TrimReport `json:"afterTrimSingle"` // communicator of this system alone
	AfterTrimMulti  TrimReport `json:"afterTrimMulti"`  // this system is one of two alike
}

// TrimReport is what is left of a system after trimming it to a communicator.
type TrimReport struct {
	Inter  int            `json:"inter"`
	Ranks  []int          `json:"ranks"`
	GPUGPU [][]*PathEntry `json:"gpuGpu"`
	GPUNet [][]*PathEntry `json:"gpuNet"`
	NetGPU [][]*PathEntry `json:"netGpu"`
}

const localNetChannels = 4 // how many channels LinksReport.LocalNet shows

// Links computes what each pair of GPUs, and of GPU and network port, uses.
func Links(doc *Document, opts BuildOptions, set Settings) (*LinksReport, error) {
	r := &LinksReport{}
	for i, after := range []*TrimReport{&r.AfterTrimSingle, &r.AfterTrimMulti} {
		s, err := Build(doc, opts)
		if err != nil {
			return nil, err
		}
		comm := WholeComm(s)
		comm.NRanks *= i + 1
		if err := s.ComputePaths(set, comm); err != nil {
			return nil, fmt.Errorf("%s: %w", doc.File, err)
		}
		if i == 0 {
			if err := r.pairs(s, set); err != nil {
				return nil, fmt.Errorf("%s: %w", doc.File, err)
			}
		}
		s.Trim(comm)
		if err := s.ComputePaths(set, comm); err != nil {
			return nil, fmt.Errorf("%s: trimmed: %w", doc.File, err)
		}
		*after = TrimReport{
			Inter:  cnum.Bit(s.Inter),
			Ranks:  s.Ranks(),
			GPUGPU: s.matrix(NodeGPU, NodeGPU),
			GPUNet: s.matrix(NodeGPU, NodeNET),
			NetGPU: s.matrix(NodeNET, NodeGPU),
		}
	}
	return r, nil
}

// pairs fills in all but what is left after trimming.
func (r *LinksReport) pairs(s *System, set Settings) error {
	gpus, nets := s.Nodes[NodeGPU], s.Nodes[NodeNET]
	r.Ranks, r.Nets, r.LocalGPU = s.Ranks(), make([]string, len(nets)), make([]int, len(nets))
	for i, net := range nets {
		r.Nets[i], r.LocalGPU[i] = net.Name(), net.Net.LocalGPU
	}
	for _, m := range []*[][]int{&r.P2P, &r.Read, &r.Intermediate, &r.CUDAP2P, &r.UseNet, &r.TransportP2P, &r.TransportSHM} {
		*m = table(len(gpus), len(gpus))
	}
	r.GDRRecv, r.GDRSend = table(len(gpus), len(nets)), table(len(gpus), len(nets))
	r.LocalNet = table(len(gpus), localNetChannels)
	r.GPUGPU, r.GPUNet = s.matrix(NodeGPU, NodeGPU), s.matrix(NodeGPU, NodeNET)
	r.NetGPU, r.GPUCPU = s.matrix(NodeNET, NodeGPU), s.matrix(NodeGPU, NodeCPU)
	for i, gpu := range gpus {
		for j, peer := range gpus {
			if err := r.gpuPair(s, gpu, peer, i, j, set); err != nil {
				return err
			}
		}
		for j, net := range nets {
			if err := r.netPair(s, gpu, net, i, j, set); err != nil {
				return err
			}
		}
		for c := range localNetChannels {
			r.LocalNet[i][c] = -1
			if net, err := s.LocalNet(gpu, c, set.NetDevs); err == nil {
				r.LocalNet[i][c] = net.Net.Dev
			}
		}
	}
	return nil
}

// gpuPair fills in what two GPUs use. A GPU needs no transport to itself.
func (r *LinksReport) gpuPair(s *System, gpu, peer *Node, i, j int, set Settings) error {
	p2p, err := s.CheckP2P(gpu, peer, set)
	if err != nil {
		return err
	}
	r.P2P[i][j], r.Read[i][j], r.Intermediate[i][j], r.CUDAP2P[i][j] = cnum.Bit(p2p.OK), cnum.Bit(p2p.Read), p2p.Via, 1
	r.UseNet[i][j] = cnum.Bit(s.NetIsFaster(gpu, peer, set))
	if peer == gpu {
		return nil
	}
	connects, err := s.UsesP2P(gpu, peer, set)
	r.TransportP2P[i][j], r.TransportSHM[i][j] = cnum.Bit(connects), cnum.Bit(s.UsesSHM(gpu, peer, set))
	return err
}

// netPair fills in what a GPU and a network port use.
func (r *LinksReport) netPair(s *System, gpu, net *Node, i, j int, set Settings) error {
	recv, err := s.CheckGDR(gpu, net, false, set)
	if err != nil {
		return err
	}
	send, err := s.CheckGDR(gpu, net, true, set)
	r.GDRRecv[i][j], r.GDRSend[i][j] = int(recv), int(send)
	return err
}

func table(rows, columns int) [][]int {
	t := make([][]int, rows)
	for i := range t {
		t[i] = make([]int, columns)
	}
	return t
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
