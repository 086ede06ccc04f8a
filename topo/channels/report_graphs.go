package channels

import (
	"fmt"

	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/internal/cnum"
)

// GraphsReport holds the outcome of the channel search for JSON, by case: "single" for a communicator of this system
// alone, "multi" for one over several, and the same with "_collnet" for a network that reduces.
type GraphsReport map[string]GraphsCase

// GraphsCase is one communicator. Graphs that were not searched for are nil.
type GraphsCase struct {
	Inter         int          `json:"inter"`
	GPUs          int          `json:"gpus"`
	MaxBW         topo.Float32 `json:"maxBw"`
	TotalBW       topo.Float32 `json:"totalBw"`
	NVLSSupport   int          `json:"nvlsSupport"`
	Ring          *Graph       `json:"ring,omitempty"`
	Tree          *Graph       `json:"tree,omitempty"`
	CollNetChain  *Graph       `json:"collnetChain,omitempty"`
	CollNetDirect *Graph       `json:"collnetDirect,omitempty"`
	NVLS          *Graph       `json:"nvls,omitempty"`
}

// ReportGraphs searches for the channels of a topology in all four cases.
func ReportGraphs(doc *topo.Document, opts topo.BuildOptions, set topo.Settings) (GraphsReport, error) {
	report := GraphsReport{}
	for name, hosts := range map[string]int{"single": 1, "multi": 2} {
		for suffix, collNet := range map[string]bool{"": false, "_collnet": true} {
			one, err := graphsCase(doc, TuneOptions{Build: opts, Settings: set, CollNet: collNet}, hosts)
			if err != nil {
				return nil, err
			}
			report[name+suffix] = one
		}
	}
	return report, nil
}

func graphsCase(doc *topo.Document, opt TuneOptions, hosts int) (c GraphsCase, err error) {
	sys, err := topo.Build(doc, opt.Build)
	if err != nil {
		return c, err
	}
	if len(sys.Nodes[topo.NodeGPU]) == 0 {
		return c, fmt.Errorf("%s: %w", doc.File, errNoRank)
	}
	comm := topo.WholeComm(sys)
	comm.NRanks *= hosts
	if sys, err = commSystem(doc, opt, comm); err != nil {
		return c, err
	}
	graphs, err := searchFor(sys, opt)
	if err != nil {
		return c, fmt.Errorf("%s: %w", doc.File, err)
	}
	totals := sys.Totals()
	c = GraphsCase{
		Inter: totals.Inter, GPUs: totals.GPUs, MaxBW: totals.MaxBW, TotalBW: totals.TotalBW,
		NVLSSupport: cnum.Bit(sys.CanMultimem()),
	}
	if opt.CollNet {
		c.CollNetChain, c.CollNetDirect = &graphs.CollNetChain, &graphs.CollNetDirect
	} else {
		c.Ring, c.Tree, c.NVLS = &graphs.Ring, &graphs.Tree, &graphs.NVLS
	}
	return c, nil
}
