package channels

import (
	"fmt"
	"slices"

	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// TuneOptions describe a communicator over hosts that are all alike. All GPUs of each host belong to it.
type TuneOptions struct {
	topo.Settings
	Variables Variables
	CollNet   bool // the network reduces and NCCL is told to use that; all ports take part
}

// CommTuning is all that NCCL would find out about a communicator.
type CommTuning struct {
	Hosts  int
	Graphs Graphs // as all ranks agree on them
	Tuning *tuning.Tuning

	facts facts
}

// Tune goes the whole way from one host's topology to NCCL's estimates. It returns them for communicators over each
// given number of hosts that are all alike. It needs no GPU.
//
// As in NCCL, a host counts as several nodes if some of its GPUs reach each other only over the network.
func Tune(doc *topo.Document, opt TuneOptions, hosts ...int) ([]*CommTuning, error) {
	var all []*CommTuning
	perHost := map[bool]*CommTuning{} // of one host, by whether there are others
	for _, n := range hosts {
		if n < 1 {
			return nil, fmt.Errorf("%s: a communicator over %d hosts is impossible", doc.File, n)
		}
		if perHost[n > 1] == nil {
			s, err := tuneHost(doc, opt, n > 1)
			if err != nil {
				return nil, err
			}
			perHost[n > 1] = s
		}
		c := *perHost[n > 1]
		c.Hosts = n
		c.facts.Nodes *= n
		c.facts.Ranks *= n
		c.Tuning = deriveTuning(c.Graphs, c.facts)
		all = append(all, &c)
	}
	return all, nil
}

// tuneHost computes what depends on the host but not on the number of hosts. Its facts count one host only.
func tuneHost(doc *topo.Document, opt TuneOptions, others bool) (*CommTuning, error) {
	sys, err := topo.Build(doc, opt.Settings)
	if err != nil {
		return nil, err
	}
	left := sys.Ranks()
	if len(left) == 0 {
		return nil, fmt.Errorf("%s: %w", doc.File, errNoRank)
	}
	slices.Sort(left)
	c := &CommTuning{facts: facts{Facts: tuning.Facts{NCCL: opt.NCCL, Comm: nccl.Comm{Ranks: len(left)}},
		Variables: opt.Variables}}
	for len(left) > 0 {
		ranks := c.facts.Ranks
		if others {
			ranks++
		}
		s, err := commSystem(doc, opt, left[0], ranks)
		if err != nil {
			return nil, err
		}
		if err := c.addDomain(s, opt); err != nil {
			return nil, fmt.Errorf("%s: %w", doc.File, err)
		}
		domain := s.Ranks()
		left = slices.DeleteFunc(left, func(r int) bool { return slices.Contains(domain, r) })
	}
	return c, nil
}

// Found is what NCCL's search finds for a communicator.
type Found struct {
	*topo.Totals
	Graphs
}

// Search finds the channels of a communicator over so many hosts that are all alike, as the rank with the lowest number
// finds them.
func Search(doc *topo.Document, opt TuneOptions, hosts int) (*Found, error) {
	sys, err := topo.Build(doc, opt.Settings)
	if err != nil {
		return nil, err
	}
	rank, ranks := sys.Whole()
	s, err := commSystem(doc, opt, rank, ranks*hosts)
	if err != nil {
		return nil, err
	}
	totals := s.Totals()
	graphs, err := s.graphs(opt)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doc.File, err)
	}
	return &Found{totals, *graphs}, nil
}

// commSystem is the system as a rank of a communicator sees it, built anew because the search consumes it.
func commSystem(doc *topo.Document, opt TuneOptions, rank, ranks int) (*system, error) {
	sys, err := topo.Build(doc, opt.Settings)
	if err != nil {
		return nil, err
	}
	if opt.CollNet {
		for _, n := range sys.Nodes[topo.NodeNET] {
			n.Net.Coll = true
		}
	}
	if err := sys.Init(rank, ranks); err != nil {
		return nil, fmt.Errorf("%s: %w", doc.File, err)
	}
	s, err := newSystem(sys)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doc.File, err)
	}
	return s, nil
}

// addDomain adds GPUs of a host that reach each other without the network. Like NCCL's ranks, it keeps the worst of
// what each domain finds.
func (c *CommTuning) addDomain(s *system, opt TuneOptions) error {
	graphs, err := s.graphs(opt)
	if err != nil {
		return err
	}
	gpus, netBW := s.Nodes[topo.NodeGPU], s.minNetBW()
	f := &c.facts
	if f.Nodes == 0 {
		f.CPUArch, f.CPUVendor = int(s.cpu.Arch), s.cpu.Vendor
		f.NVSwitches = len(s.Nodes[topo.NodeNVS])
		f.CollNet, f.CollNetHeads = opt.CollNet, graphs.CollNetDirect.heads()
		f.MinLocalRanks, f.MinNetBW, f.MinCompCap = len(gpus), netBW, gpus[0].GPU.SM
		f.NVLS = true
		c.Graphs = *graphs
	}
	f.Nodes++
	f.MinLocalRanks, f.MaxLocalRanks = min(f.MinLocalRanks, len(gpus)), max(f.MaxLocalRanks, len(gpus))
	f.MinNetBW = min(f.MinNetBW, netBW)
	f.NVLS = f.NVLS && opt.canNVLS(s.System)
	f.MaxTreePattern = worsePattern(f.MaxTreePattern, graphs.Tree.Pattern)
	for _, g := range gpus {
		f.MinCompCap, f.MaxCompCap = min(f.MinCompCap, g.GPU.SM), max(f.MaxCompCap, g.GPU.SM)
	}
	c.Graphs.settle(graphs)
	return nil
}

// canNVLS says whether NCCL uses multicast where the hardware can.
func (opt *TuneOptions) canNVLS(sys *topo.System) bool {
	return !opt.Variables.NVLSDisable && sys.CanMultimem() &&
		(len(sys.Nodes[topo.NodeGPU]) > 2 || sys.NCCL.Has(nccl.NVLSForTwo))
}

// settle lowers graphs to what other ranks have found.
func (g *Graphs) settle(o *Graphs) {
	for _, p := range [...][2]*Graph{
		{&g.Ring, &o.Ring}, {&g.Tree, &o.Tree}, {&g.NVLS, &o.NVLS},
		{&g.CollNetChain, &o.CollNetChain}, {&g.CollNetDirect, &o.CollNetDirect},
	} {
		a, b := p[0], p[1]
		a.NChannels = min(a.NChannels, b.NChannels)
		a.SameChannels = min(a.SameChannels, b.SameChannels)
		a.BWIntra, a.BWInter = min(a.BWIntra, b.BWIntra), min(a.BWInter, b.BWInter)
		a.TypeIntra, a.TypeInter = max(a.TypeIntra, b.TypeIntra), max(a.TypeInter, b.TypeInter)
		a.CrossNIC = max(a.CrossNIC, b.CrossNIC)
	}
}

// heads counts the GPUs that channels start from.
func (g *Graph) heads() int {
	seen := map[int]bool{}
	for _, channel := range g.Intra {
		seen[channel[0]] = true
	}
	return len(seen)
}

// worsePattern compares tree patterns in NCCL's order.
func worsePattern(a, b string) string {
	order := []string{"", PatternBalancedTree, PatternTree}
	if slices.Index(order, a) >= slices.Index(order, b) {
		return a
	}
	return b
}
