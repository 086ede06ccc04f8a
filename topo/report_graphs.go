package topo

import "fmt"

// GraphsReport holds the outcome of the channel search for JSON, by case: "single" for a communicator of this system
// alone, "multi" for one over several, and the same with "_collnet" for a network that reduces.
type GraphsReport map[string]GraphsCase

// GraphsCase is one communicator. Graphs that were not searched for are nil.
type GraphsCase struct {
	Inter         int           `json:"inter"`
	GPUs          int           `json:"gpus"`
	MaxBW         Float32       `json:"maxBw"`
	TotalBW       Float32       `json:"totalBw"`
	NVLSSupport   int           `json:"nvlsSupport"`
	Ring          *ChannelGraph `json:"ring,omitempty"`
	Tree          *ChannelGraph `json:"tree,omitempty"`
	CollNetChain  *ChannelGraph `json:"collnetChain,omitempty"`
	CollNetDirect *ChannelGraph `json:"collnetDirect,omitempty"`
	NVLS          *ChannelGraph `json:"nvls,omitempty"`
}

// Graphs searches for the channels of a topology in all four cases.
func Graphs(doc *Document, opts BuildOptions, set Settings) (GraphsReport, error) {
	report := GraphsReport{}
	for name, hosts := range map[string]int{"single": 1, "multi": 2} {
		for _, collNet := range []bool{false, true} {
			key := name
			if collNet {
				key += "_collnet"
			}
			one, err := graphsCase(doc, opts, set, hosts, collNet)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", doc.File, key, err)
			}
			report[key] = one
		}
	}
	return report, nil
}

func graphsCase(doc *Document, opts BuildOptions, set Settings, hosts int, collNet bool) (c GraphsCase, err error) {
	sys, err := Build(doc, opts)
	if err != nil {
		return c, err
	}
	if len(sys.Nodes[NodeGPU]) == 0 {
		return c, fmt.Errorf("no GPU with a rank")
	}
	if collNet {
		for _, n := range sys.Nodes[NodeNET] {
			n.Net.Coll = true
		}
	}
	comm := WholeComm(sys)
	comm.NRanks *= hosts
	if err := sys.Init(set, comm); err != nil {
		return c, err
	}
	nvls := sys.HasMulticast()
	graphs, err := sys.SearchChannels(SearchOptions{NVLS: nvls, CollNet: collNet, NetDevs: set.NetDevs})
	if err != nil {
		return c, err
	}
	totals := sys.Totals()
	c = GraphsCase{
		Inter: totals.Inter, GPUs: totals.GPUs, MaxBW: totals.MaxBW, TotalBW: totals.TotalBW, NVLSSupport: *bit(nvls),
	}
	if collNet {
		c.CollNetChain, c.CollNetDirect = &graphs.CollNetChain, &graphs.CollNetDirect
	} else {
		c.Ring, c.Tree, c.NVLS = &graphs.Ring, &graphs.Tree, &graphs.NVLS
	}
	return c, nil
}
