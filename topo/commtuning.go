package topo

import (
	"fmt"
	"slices"
)

// TuneOptions describe a communicator over hosts that are all alike.
type TuneOptions struct {
	Build    BuildOptions
	Settings Settings
	Hosts    int  // >= 1; all GPUs of each host belong to the communicator
	CollNet  bool // the network reduces and NCCL is told to use that; all ports take part

	// PlainTrees leaves CommFacts.MaxTreePattern empty, so that trees with all traffic on one GPU are not charged 15 %.
	PlainTrees bool
}

// CommTuning is all that NCCL would find out about a communicator.
type CommTuning struct {
	Hosts  int
	Facts  CommFacts
	Graphs ChannelGraphs // as all ranks agree on them
	Tuning *Tuning

	AllNVLink          bool // every pair of GPUs in a node is connected by NVLink or C2C
	P2PChannels        int  // channels for point-to-point
	P2PChannelsPerPeer int  // of these, for one peer
}

// Tune goes the whole way from one host's topology to NCCL 2.30.7's cost model for a communicator over hosts like it. No
// GPU is needed.
//
// GPUs of a host that reach each other only over the network form nodes of their own, as in NCCL.
func Tune(doc *Document, opt TuneOptions) (*CommTuning, error) {
	if opt.Hosts < 1 {
		return nil, fmt.Errorf("%s: a communicator over %d hosts is impossible", doc.File, opt.Hosts)
	}
	c := &CommTuning{Hosts: opt.Hosts}
	left, err := hostRanks(doc, opt.Build)
	if err != nil {
		return nil, err
	}
	c.Facts.NRanks = len(left) * opt.Hosts
	for first := true; len(left) > 0; first = false {
		sys, err := Build(doc, opt.Build)
		if err != nil {
			return nil, err
		}
		if opt.CollNet {
			for _, n := range sys.Nodes[NodeNET] {
				n.Net.Coll = true
			}
		}
		comm := &Comm{Rank: left[0], NRanks: c.Facts.NRanks}
		if err := sys.Init(opt.Settings, comm); err != nil {
			return nil, fmt.Errorf("%s: %w", doc.File, err)
		}
		if err := c.addDomain(sys, opt, first); err != nil {
			return nil, fmt.Errorf("%s: %w", doc.File, err)
		}
		domain := sys.ranks()
		left = slices.DeleteFunc(left, func(r int) bool { return slices.Contains(domain, r) })
	}
	if opt.PlainTrees {
		c.Facts.MaxTreePattern = ""
	}
	c.Tuning = DeriveTuning(c.Graphs, c.Facts)
	c.setP2PChannels()
	return c, nil
}

// hostRanks lists the ranks of one host in ascending order.
func hostRanks(doc *Document, opts BuildOptions) ([]int, error) {
	sys, err := Build(doc, opts)
	if err != nil {
		return nil, err
	}
	ranks := sys.ranks()
	if len(ranks) == 0 {
		return nil, fmt.Errorf("%s: no GPU with a rank", doc.File)
	}
	slices.Sort(ranks)
	return ranks, nil
}

// addDomain takes in the GPUs of a host that reach each other. Ranks settle on the worst of what each of them has found.
func (c *CommTuning) addDomain(sys *System, opt TuneOptions, first bool) error {
	f := &c.Facts
	gpus := len(sys.Nodes[NodeGPU])
	nvls := sys.HasMulticast()
	graphs, err := sys.SearchChannels(SearchOptions{NVLS: nvls, CollNet: opt.CollNet, NetDevs: opt.Settings.NetDevs})
	if err != nil {
		return err
	}
	netBW, err := sys.minNetBW(opt.Settings.NetDevs)
	if err != nil {
		return err
	}
	perPeer, err := sys.p2pChannelsPerPeer(opt.Settings.NetDevs)
	if err != nil {
		return err
	}
	_, worst := sys.gpuPathRange()
	f.NNodes += c.Hosts
	if first {
		cpu := sys.Nodes[NodeCPU][0].CPU
		f.CPUArch, f.CPUVendor = cpu.Arch, cpu.Vendor
		f.NVSwitches = len(sys.Nodes[NodeNVS])
		f.MinLocalRanks, f.MaxLocalRanks = gpus, gpus
		f.MinNetBW, f.NVLS = netBW, nvls
		f.MinCompCap, f.MaxCompCap = sys.Nodes[NodeGPU][0].GPU.SM, sys.Nodes[NodeGPU][0].GPU.SM
		f.MaxTreePattern = graphs.Tree.Pattern
		f.CollNet = opt.CollNet
		f.CollNetHeads = graphs.CollNetDirect.heads()
		c.Graphs = *graphs
		c.AllNVLink = worst < PathPIX
		c.P2PChannelsPerPeer = perPeer
	} else {
		f.MinLocalRanks, f.MaxLocalRanks = min(f.MinLocalRanks, gpus), max(f.MaxLocalRanks, gpus)
		f.MinNetBW, f.NVLS = min(f.MinNetBW, netBW), f.NVLS && nvls
		f.MaxTreePattern = worsePattern(f.MaxTreePattern, graphs.Tree.Pattern)
		c.Graphs.settle(graphs)
		c.AllNVLink = c.AllNVLink && worst < PathPIX
		c.P2PChannelsPerPeer = min(c.P2PChannelsPerPeer, perPeer)
	}
	for _, g := range sys.Nodes[NodeGPU] {
		f.MinCompCap, f.MaxCompCap = min(f.MinCompCap, g.GPU.SM), max(f.MaxCompCap, g.GPU.SM)
	}
	return nil
}

// settle lowers graphs to what other ranks have found.
func (g *ChannelGraphs) settle(o *ChannelGraphs) {
	pairs := [...][2]*ChannelGraph{
		{&g.Ring, &o.Ring}, {&g.Tree, &o.Tree}, {&g.CollNetChain, &o.CollNetChain}, {&g.CollNetDirect, &o.CollNetDirect},
		{&g.NVLS, &o.NVLS},
	}
	for _, p := range pairs {
		a, b := p[0], p[1]
		a.NChannels = min(a.NChannels, b.NChannels)
		a.SameChannels = min(a.SameChannels, b.SameChannels)
		a.BWIntra, a.BWInter = min(a.BWIntra, b.BWIntra), min(a.BWInter, b.BWInter)
		a.TypeIntra, a.TypeInter = max(a.TypeIntra, b.TypeIntra), max(a.TypeInter, b.TypeInter)
		a.CrossNIC = max(a.CrossNIC, b.CrossNIC)
	}
}

// heads counts the GPUs that channels start from.
func (g *ChannelGraph) heads() int {
	seen := map[int]bool{}
	for _, channel := range g.Intra {
		seen[channel[0]] = true
	}
	return len(seen)
}

// worsePattern compares tree patterns in NCCL's order.
func worsePattern(a, b string) string {
	order := []string{"", PatternBalancedTree, PatternSplitTree, PatternTree}
	if slices.Index(order, a) >= slices.Index(order, b) {
		return a
	}
	return b
}
