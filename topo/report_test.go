package topo

import (
	"encoding/json"
	"fmt"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo/internal/cnum"
)

// Stage is a point in NCCL's work on paths.
type Stage string

const (
	StageRaw    Stage = "raw"    // best paths, before any diversion
	StageSingle Stage = "single" // as at communicator init with all GPUs of the file: computed, trimmed, computed again
)

// PathsReport is the graph with all its paths at one stage, as NCCL's answers have it. Nodes are numbered by type.
type PathsReport struct {
	*Totals
	Nodes []NodeReport                      `json:"nodes"`
	Paths map[string]map[string][]PathEntry `json:"paths"` // by name of the source, then type of the target
}

// NodeReport is one node; what does not belong to its type is nil.
type NodeReport struct {
	I        int        `json:"i"` // among all nodes
	Name     string     `json:"name"`
	Type     string     `json:"type"`
	Idx      int        `json:"idx"` // among those of its type
	Rank     *int       `json:"rank,omitempty"`
	Dev      *int       `json:"dev,omitempty"`
	SM       *int       `json:"sm,omitempty"`
	NGPUs    *int       `json:"ngpus,omitempty"`
	Device   string     `json:"device,omitempty"`
	Arch     *CPUArch   `json:"arch,omitempty"`
	Vendor   *CPUVendor `json:"vendor,omitempty"`
	Model    *CPUModel  `json:"model,omitempty"`
	ASIC     string     `json:"asic,omitempty"`
	Port     *int       `json:"port,omitempty"`
	BW       *Float32   `json:"bw,omitempty"`
	Latency  *Float32   `json:"latency,omitempty"`
	GDR      *int       `json:"gdr,omitempty"`
	Coll     *int       `json:"coll,omitempty"`
	MaxConn  *int       `json:"maxconn,omitempty"`
	MLOPart  *int       `json:"mlopart,omitempty"`
	LocalGPU *int       `json:"localGpu,omitempty"`
	Links    [][]any    `json:"links"` // [type, bandwidth, number of the node it leads to]
}

// PathEntry is [type, hops, bandwidth], or [type, hops, bandwidth, [numbers of the nodes passed]].
type PathEntry struct {
	Type PathType
	Hops int
	BW   Float32
	Via  []int // nil leaves the fourth member out
}

// MarshalJSON writes the list.
func (p PathEntry) MarshalJSON() ([]byte, error) {
	row := []any{p.Type.String(), p.Hops, p.BW}
	if p.Via != nil {
		row = append(row, p.Via)
	}
	return json.Marshal(row)
}

// Paths computes the paths of a topology up to a stage.
func Paths(doc *Document, set Settings, stage Stage) (*PathsReport, error) {
	s, err := Build(doc, set)
	if err != nil {
		return nil, err
	}
	switch stage {
	case StageRaw:
		err = s.SetPaths()
	case StageSingle:
		err = s.Init(s.Whole())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doc.File, err)
	}
	report := s.Report()
	if stage == StageSingle {
		report.Totals = s.Totals()
	}
	return report, nil
}

// Report is the graph with the paths that are known.
func (s *System) Report() *PathsReport {
	r := &PathsReport{Paths: map[string]map[string][]PathEntry{}}
	number := map[*Node]int{}
	for _, nodes := range s.Nodes {
		for _, n := range nodes {
			number[n] = len(number)
		}
	}
	for _, nodes := range s.Nodes {
		for _, n := range nodes {
			r.Nodes = append(r.Nodes, n.report(number))
			r.Paths[n.Name()] = n.pathEntries(number)
		}
	}
	return r
}

// pathEntries lists the paths of a node by type of target. The nodes passed are listed where NCCL's search uses them.
func (n *Node) pathEntries(number map[*Node]int) map[string][]PathEntry {
	byType := map[string][]PathEntry{}
	for t, paths := range n.paths {
		if paths == nil {
			continue
		}
		entries := make([]PathEntry, len(paths))
		for i, p := range paths {
			entries[i] = PathEntry{Type: p.Type, Hops: p.Hops, BW: p.BW}
			if (n.Type == NodeGPU || n.Net != nil) && NodeType(t) != NodeDEV {
				entries[i].Via = make([]int, 0, p.Hops)
				for _, l := range p.Links {
					entries[i].Via = append(entries[i].Via, number[l.To])
				}
			}
		}
		byType[NodeType(t).String()] = entries
	}
	return byType
}

func (n *Node) report(number map[*Node]int) NodeReport {
	r := NodeReport{I: number[n], Name: n.Name(), Type: n.Type.String(), Idx: n.Index, Links: [][]any{}}
	for _, l := range n.Links {
		r.Links = append(r.Links, []any{l.Type.String(), Float32(l.BW), number[l.To]})
	}
	switch {
	case n.GPU != nil:
		r.Rank, r.Dev, r.SM, r.GDR, r.MLOPart = &n.GPU.Rank, &n.GPU.Dev, &n.GPU.SM, new(cnum.Bit(n.GPU.GDR)),
			&n.GPU.MLOPart
	case n.Dev != nil:
		r.Dev, r.SM, r.NGPUs = &n.Dev.Dev, &n.Dev.SM, &n.Dev.NGPUs
	case n.PCI != nil:
		r.Device = fmt.Sprintf("%#x", n.PCI.PCIID)
	case n.CPU != nil:
		r.Arch, r.Vendor, r.Model = &n.CPU.Arch, &n.CPU.Vendor, &n.CPU.Model
	case n.Net != nil:
		r.Dev, r.Port, r.MaxConn = &n.Net.Dev, &n.Net.Port, &n.Net.MaxConn
		r.BW, r.Latency = &n.Net.BW, &n.Net.Latency
		r.ASIC, r.GDR, r.Coll = fmt.Sprintf("%#x", n.Net.GUID), new(cnum.Bit(n.Net.GDR)), new(cnum.Bit(n.Net.Coll))
		r.LocalGPU = &n.Net.LocalGPU
	}
	return r
}
