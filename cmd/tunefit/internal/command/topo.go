package command

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ask"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/wording"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/detect"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

func topoCommand(env cli.Env) *cobra.Command {
	var dump bool
	cmd := topoView(env, &cobra.Command{
		Use:   "topo [SYSTEM.xml]",
		Short: "Show a machine as NCCL sees it",
		Long: `Show a machine as a release of NCCL sees it:
  - the paths between GPUs and from GPUs to NICs, with type and bandwidth in GB/s
  - the NICs
  - the numbers that rules may use, and the fingerprint: the same for all releases

Without a file, it looks for the topology as the library does: NCCL_TUNER_TOPO_FILE,
NCCL_TOPO_FILE, NCCL's file for virtual machines, then the machine itself. Variables
that change paths, such as NCCL_P2P_LEVEL, count as they do in NCCL.`,
		Example: `  tunefit topo
  tunefit topo configs/topo/dgx-h100.xml
  tunefit topo explain gpu0 mlx5_2 --topo configs/topo/dgx-h100.xml`,
	}, "print JSON", func(cmd *cobra.Command, args []string, as nccl.Version) (*topoOverview, error) {
		if dump && cmd.Flag("json").Value.String() == "true" {
			return nil, cli.Usagef("--json and --dump exclude each other")
		}
		m, err := openMachine(env, args, as, cmd.ErrOrStderr())
		if errors.Is(err, fs.ErrNotExist) && len(args) > 0 &&
			wording.Nearest(args[0], cli.CommandNames(cmd)) != "" {
			return nil, cli.Usagef("%w (%sor name a file)", err, wording.DidYouMean(args[0], cli.CommandNames(cmd)))
		}
		switch {
		case err != nil:
			return nil, err
		case dump:
			return nil, m.doc.Write(cmd.OutOrStdout())
		}
		return m.overview()
	}, func(w io.Writer, o *topoOverview) {
		if !dump {
			o.write(w)
		}
	})
	cmd.Flags().BoolVar(&dump, "dump", false, "print the topology as NCCL's XML")
	cmd.AddCommand(topoExplainCommand(env), topoLinksCommand(env), topoGraphsCommand(env),
		topoTuningCommand(env))
	return cmd
}

func topoLinksCommand(env cli.Env) *cobra.Command {
	return topoView(env, &cobra.Command{
		Use:   "links [SYSTEM.xml]",
		Short: "Print what each pair uses: P2P, shared memory, network, GPUDirect RDMA",
		Long: `Print for each pair of GPUs whether NCCL uses peer-to-peer, shared memory or the
network. Print for each GPU and NIC whether it uses GPUDirect RDMA. NCCL_P2P_LEVEL,
NCCL_P2P_DISABLE, NCCL_NET_GDR_LEVEL, NCCL_NET_GDR_READ, NCCL_NET_GDR_C2C,
NCCL_PXN_DISABLE, NCCL_PXN_C2C, NCCL_NVB_DISABLE, NCCL_SHM_DISABLE and
NCCL_NET_DISABLE_INTRA count as in NCCL.`,
		Example: `  tunefit topo links configs/topo/dgx-h100.xml
  NCCL_NET_GDR_LEVEL=PIX tunefit topo links configs/topo/dgx-h100.xml --json`,
	}, "print JSON: a list of pairs", func(_ *cobra.Command, args []string, as nccl.Version) ([]link, error) {
		m, err := openMachine(env, args, as, io.Discard)
		if err != nil {
			return nil, err
		}
		return m.links(), nil
	}, writeLinks)
}

func topoGraphsCommand(env cli.Env) *cobra.Command {
	return topoView(env, &cobra.Command{
		Use:   "graphs [SYSTEM.xml]",
		Short: "Print the channels that NCCL would find",
		Long: `Print the channels that NCCL's search would find for rings, trees, NVLS and CollNet, on
this system alone and as one of several alike.`,
		Example: `  tunefit topo graphs configs/topo/dgx-h100.xml`,
	}, "print JSON, with the order of GPUs and NICs of each channel",
		func(_ *cobra.Command, args []string, as nccl.Version) (map[string]*channels.Found, error) {
			doc, _, err := document(env, args)
			if err != nil {
				return nil, err
			}
			return findGraphs(doc, as)
		}, writeGraphs)
}

func topoTuningCommand(env cli.Env) *cobra.Command {
	var nodes []int
	var collNet bool
	cmd := topoView(env, &cobra.Command{
		Use:   "tuning [SYSTEM.xml]",
		Short: "Print NCCL's estimates, and what it would choose",
		Long: `Print the estimates of a release of NCCL for communicators over hosts like this one:
latency and bandwidth of each algorithm and protocol, and the sizes that NCCL chooses
them for. NCCL_* variables count as they do in NCCL. No measurement is involved.`,
		Example: `  tunefit topo tuning configs/topo/dgx-h100.xml --nodes 1,4
  tunefit topo tuning configs/topo/dgx-h100.xml --json`,
	}, "print JSON", func(cmd *cobra.Command, args []string, as nccl.Version) (*tuning.Set, error) {
		cli.Notes(cmd.ErrOrStderr(), ask.UncountedVariables()...)
		if err := checkHosts(nodes); err != nil {
			return nil, err
		}
		doc, _, err := document(env, args)
		if err != nil {
			return nil, err
		}
		opt, err := ask.TuneOptions(as)
		if err != nil {
			return nil, err
		}
		opt.CollNet = collNet
		comms, err := channels.Tune(doc, opt, nodes...)
		set := &tuning.Set{NCCL: opt.NCCL}
		for _, c := range comms {
			set.Tunings = append(set.Tunings, c.Tuning)
		}
		return set, err
	}, writeTuning)
	cmd.Flags().IntSliceVar(&nodes, "nodes", []int{1, 2, 4, 8, 16, 64}, "numbers of hosts")
	cmd.Flags().BoolVar(&collNet, "collnet", false, "the network reduces (SHARP), and NCCL is told to use that")
	return cmd
}

func checkHosts(nodes []int) error {
	const most = 1 << 20
	if len(nodes) == 0 || slices.Min(nodes) < 1 || slices.Max(nodes) > most {
		return cli.Usagef("--nodes %v (allowed: communicators of 1 to %d hosts)", nodes, most)
	}
	return nil
}

// topoView completes a command that prints a report on a topology, as a release of NCCL sees it: as tables or, with
// --json, as it is.
func topoView[R any](env cli.Env, cmd *cobra.Command, asJSON string,
	report func(*cobra.Command, []string, nccl.Version) (R, error), tables func(io.Writer, R)) *cobra.Command {
	release := topoRelease(env, cmd)
	program := cmd.Flags().Bool("json", false, asJSON)
	cmd.Args = cli.Args(0, 1, "a topology file, or none for this machine")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		as, err := release()
		if err != nil {
			return err
		}
		r, err := report(cmd, args, as)
		if err != nil {
			return err
		}
		return cli.Print(cmd.OutOrStdout(), *program, r, func(w io.Writer) { tables(w, r) })
	}
	return cmd
}

// topoRelease adds --nccl to a command. The function returned tells the release, and prints notes on it.
func topoRelease(env cli.Env, cmd *cobra.Command) func() (nccl.Version, error) {
	named := cmd.Flags().String("nccl", "", ask.InstalledUsage)
	return func() (nccl.Version, error) {
		version, notes, err := ask.WhichNCCL(&env, *named)
		cli.Notes(cmd.ErrOrStderr(), notes...)
		return version, err
	}
}

// topoMachine is a topology with its paths, as a communicator of all its GPUs gets them.
type topoMachine struct {
	doc    *topo.Document
	source detect.Source
	*topo.System
}

// machineRoot is where the machine's files are.
const machineRoot = "/"

// document reads the file named, or finds the machine's topology.
func document(env cli.Env, args []string) (*topo.Document, detect.Source, error) {
	if len(args) > 0 {
		doc, err := env.ReadTopology(args[0])
		return doc, detect.Source{File: args[0]}, err
	}
	doc, source, err := detect.Load(os.Getenv, machineRoot, detect.NVMLLibrary{})
	if errors.Is(err, detect.ErrNoGPU) {
		err = fmt.Errorf("%w, or name it on the command line; configs/topo has some", err)
	}
	return doc, source, err
}

func openMachine(env cli.Env, args []string, as nccl.Version, notes io.Writer) (*topoMachine, error) {
	doc, source, err := document(env, args)
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		fmt.Fprintf(notes, "note: topology %s\n", source)
	}
	for _, gpu := range doc.FewerNVLinks() {
		fmt.Fprintf(notes, "warning: %s\n", gpu)
	}
	sys, err := topo.Build(doc, ask.Settings(as))
	if err != nil {
		return nil, err
	}
	if err := sys.ComputePaths(); err != nil {
		return nil, fmt.Errorf("%s: %w", doc.File, err)
	}
	return &topoMachine{doc, source, sys}, nil
}

// topoOverview is what `tunefit topo` shows.
type topoOverview struct {
	Source      string        `json:"source"`
	NCCL        string        `json:"nccl"` // whose rules hold, but for Summary and Fingerprint
	GPUs        []gpuEntry    `json:"gpus"`
	Columns     []string      `json:"columns"` // of Matrix: GPUs, then network ports
	Matrix      [][]topo.Path `json:"matrix"`  // a row per GPU
	NICs        []nicEntry    `json:"nics"`
	Summary     topo.Summary  `json:"summary"`
	Fingerprint string        `json:"fingerprint"`
}

type gpuEntry struct {
	Name string `json:"name"`
	*topo.GPU
	BusID string `json:"bus_id"`
	CPU   string `json:"cpu"` // nearest
	NIC   string `json:"nic"` // that its first channel uses; "" without NICs
}

type nicEntry struct {
	Name string `json:"name"`
	*topo.Net
	BusID string `json:"bus_id,omitempty"`
	GPU   string `json:"gpu"` // that it serves first; "" none
}

// targets are the nodes whose paths from each GPU are shown.
func (m *topoMachine) targets() []*topo.Node {
	return slices.Concat(m.Nodes[topo.NodeGPU], m.Nodes[topo.NodeNET])
}

func (m *topoMachine) overview() (*topoOverview, error) {
	library, err := topo.Build(m.doc, topo.SettingsFromEnv(os.Getenv)) // as the library sees it with any release
	if err != nil {
		return nil, err
	}
	o := &topoOverview{Source: m.source.String(), NCCL: m.NCCL.String(), Fingerprint: string(library.Fingerprint())}
	for _, n := range m.targets() {
		o.Columns = append(o.Columns, m.Label(n))
	}
	for _, g := range m.Nodes[topo.NodeGPU] {
		e := gpuEntry{Name: g.Label(), GPU: g.GPU, BusID: g.GPU.Device.ID.BusID()}
		e.CPU = m.Label(m.LocalCPU(g))
		if net := m.LocalNet(g, 0); net != nil {
			e.NIC = m.Label(net)
		}
		o.GPUs = append(o.GPUs, e)
		var row []topo.Path
		for _, to := range m.targets() {
			row = append(row, m.Path(g, to))
		}
		o.Matrix = append(o.Matrix, row)
	}
	for _, n := range m.Nodes[topo.NodeNET] {
		e := nicEntry{Name: m.Label(n), Net: n.Net}
		for _, l := range n.Links {
			if id := l.To.ID; l.To.Type == topo.NodeNIC && id.Local() != 0 { // 0: not on the PCI bus
				e.BusID = id.BusID()
			}
		}
		if n.Net.LocalGPU >= 0 {
			e.GPU = m.Nodes[topo.NodeGPU][n.Net.LocalGPU].Label()
		}
		o.NICs = append(o.NICs, e)
	}
	o.Summary, err = library.Summarize()
	return o, err
}

// pathTypeTexts explain the types of paths, best first.
var pathTypeTexts = [...]string{
	topo.PathNVL: "NVLink, directly or through NVSwitch",
	topo.PathNVB: "NVLink with another GPU in between",
	topo.PathC2C: "chip-to-chip link of GPU and CPU",
	topo.PathPIX: "at most one PCIe switch",
	topo.PathPXB: "several PCIe switches, but no CPU",
	topo.PathP2C: "chip-to-chip link to the CPU, then PCIe",
	topo.PathPXN: "NVLink to a GPU that is close to the NIC",
	topo.PathPHB: "through the CPU",
	topo.PathSYS: "through several CPUs",
	topo.PathNET: "over the network",
	topo.PathDIS: "not connected",
}

func (o *topoOverview) write(w io.Writer) {
	tw := cli.NewTable(w)
	var seen [len(pathTypeTexts)]bool
	heading := []any{""}
	for _, name := range o.Columns {
		heading = append(heading, name)
	}
	tw.Row(append(heading, "cpu")...)
	for i, g := range o.GPUs {
		cells := []any{g.Name}
		for j, p := range o.Matrix[i] {
			cell := "X"
			if j != i {
				seen[p.Type] = true
				cell = p.Type.String()
				if p.BW > 0 {
					cell += " " + gbps(p.BW)
				}
			}
			cells = append(cells, cell)
		}
		tw.Row(append(cells, g.CPU)...)
	}
	tw.Flush()
	fmt.Fprintf(w, "\nType and GB/s of one direction, by the rules of NCCL %s:\n", o.NCCL)
	for t, text := range pathTypeTexts {
		if seen[t] && text != "" {
			fmt.Fprintf(w, "  %s  %s\n", topo.PathType(t), text)
		}
	}
	tw.Row()
	tw.Row("GPU", "rank", "index", "capability", "PCI address", "first NIC")
	for _, g := range o.GPUs {
		tw.Row(g.Name, g.Rank, g.Dev, fmt.Sprintf("%d.%d", g.SM/10, g.SM%10), g.BusID, cmp.Or(g.NIC, "-"))
	}
	tw.Flush()
	if tw.Row(); len(o.NICs) == 0 {
		tw.Row("No NIC")
	} else {
		tw.Row("NIC", "dev", "PCI address", "port", "GB/s", "latency us", "GPUDirect RDMA", "first GPU")
	}
	for _, n := range o.NICs {
		gdr := "no"
		if n.GDR {
			gdr = "available"
		}
		tw.Row(n.Name, n.Dev, cmp.Or(n.BusID, "-"), n.Port, gbps(n.BW), n.Latency, gdr, cmp.Or(n.GPU, "-"))
	}
	tw.Flush()
	s := o.Summary
	fmt.Fprintf(w, "\n%s\n", s)
	tw = cli.NewList(w)
	tw.Row("  widest ring of GPUs", gbps(s.IntraBW)+" GB/s", "narrowest pair "+gbps(s.MinPairBW)+" GB/s")
	if s.NICs > 0 {
		tw.Row("  network", gbps(s.NetBW)+" GB/s",
			fmt.Sprintf("the slowest of its ports %s GB/s; GPU to port %s, %s GB/s",
				gbps(s.NICBW), s.GPUNIC, gbps(s.GPUNICBW)))
	}
	multimem := "no: needs two or more GPUs of Hopper or later, all on NVSwitch"
	if s.Multimem {
		multimem = "possible, and NVLS too, if the driver agrees"
	}
	tw.Row("  multimem", multimem)
	tw.Row("  fingerprint", o.Fingerprint)
	tw.Flush()
}

func gbps[F ~float32 | ~float64](v F) string { return strconv.FormatFloat(float64(v), 'g', 4, 64) }

// link is what two devices use.
type link struct {
	From string        `json:"from"`
	To   string        `json:"to"`
	Path topo.PathType `json:"path"`
	GBps topo.Float32  `json:"gbps"`
	Uses string        `json:"uses"`
}

func (m *topoMachine) links() (all []link) {
	for _, gpu := range m.Nodes[topo.NodeGPU] {
		for _, to := range m.targets() {
			path := m.Path(gpu, to)
			if gpu == to || path.Type == topo.PathDIS {
				continue
			}
			l := link{From: gpu.Label(), To: to.Name(), Path: path.Type, GBps: path.BW, Uses: m.uses(gpu, to)}
			if to.GPU != nil {
				l.To = to.Label()
			}
			all = append(all, l)
		}
	}
	return all
}

// uses says how a GPU reaches another, or for which directions a port has GPUDirect RDMA.
func (m *topoMachine) uses(gpu, to *topo.Node) string {
	if to.GPU == nil {
		return map[[2]bool]string{
			{true, true}: "GPUDirect RDMA", {false, true}: "GPUDirect RDMA for receiving",
			{true, false}: "GPUDirect RDMA for sending", {}: "no GPUDirect RDMA",
		}[[...]bool{m.CheckGDR(gpu, to, true).Mode != topo.GDROff, m.CheckGDR(gpu, to, false).Mode != topo.GDROff}]
	}
	t := m.transport(gpu, to)
	if t.use != usesP2P {
		return t.use
	}
	p2p := m.CheckP2P(gpu, to)
	if p2p.Via >= 0 {
		t.use += fmt.Sprintf(" via gpu%d", p2p.Via)
	}
	if p2p.Read {
		t.use += ", reading"
	}
	return t.use
}

func writeLinks(w io.Writer, all []link) {
	tw := cli.NewTable(w)
	tw.Row("from", "to", "path", "GB/s", "uses")
	for _, l := range all {
		tw.Row(l.From, l.To, l.Path, gbps(l.GBps), l.Uses)
	}
	tw.Flush()
}

// communicators are those whose channels are printed; key is the name in JSON.
var communicators = []struct {
	key, name string
	hosts     int
	collNet   bool
}{
	{"single", "this system", 1, false}, {"multi", "several", 2, false},
	{"single_collnet", "this system, CollNet", 1, true}, {"multi_collnet", "several, CollNet", 2, true},
}

func findGraphs(doc *topo.Document, as nccl.Version) (map[string]*channels.Found, error) {
	all := map[string]*channels.Found{}
	for _, c := range communicators {
		opt := channels.TuneOptions{Settings: ask.Settings(as), CollNet: c.collNet}
		found, err := channels.Search(doc, opt, c.hosts)
		if err != nil {
			return nil, err
		}
		all[c.key] = found
	}
	return all, nil
}

func writeGraphs(w io.Writer, all map[string]*channels.Found) {
	tw := cli.NewTable(w)
	tw.Row("communicator", "graph", "channels", "GB/s per channel", "over network",
		"GPU to GPU", "GPU to NIC", "order of channel 0")
	for _, c := range communicators {
		found := all[c.key]
		graphs := []struct {
			name  string
			graph channels.Graph
		}{{"ring", found.Ring}, {"tree", found.Tree}, {"nvls", found.NVLS}, {"collnet chain", found.CollNetChain},
			{"collnet direct", found.CollNetDirect}}
		if c.collNet {
			graphs = graphs[3:] // the others are as without CollNet
		}
		for _, g := range graphs {
			if g.graph.NChannels == 0 {
				continue
			}
			over, toNIC := "-", "-"
			if found.Inter != 0 {
				over, toNIC = gbps(g.graph.BWInter), g.graph.TypeInter.String()
			}
			tw.Row(c.name, g.name, g.graph.NChannels, gbps(g.graph.BWIntra),
				over, g.graph.TypeIntra, toNIC, fmt.Sprint(g.graph.Intra[0]))
		}
	}
	tw.Flush()
}

func writeTuning(w io.Writer, set *tuning.Set) {
	fmt.Fprintf(w, "NCCL %s\n\n", set.NCCL)
	tw := cli.NewTable(w)
	tw.Row("comm", "channels", "collective", "algorithm", "protocol", "latency us", "GB/s", "chosen for")
	for _, t := range set.Tunings {
		for _, coll := range slices.Backward(nccl.AllColls()) {
			chosen := chosenSizes(t, coll)
			for a, p := range nccl.Cells {
				if t.Bandwidths[coll][a][p] == 0 || t.Table(coll, 1, 1)[a][p] < 0 {
					continue
				}
				n, _ := t.ChannelsAndWarps(a, p, 1<<40)
				tw.Row(t.Comm, n, coll, a, p,
					gbps(t.Latencies[coll][a][p]), gbps(t.Bandwidths[coll][a][p]),
					cmp.Or(chosen[nccl.Cell{Algo: a, Proto: p}], "-"))
			}
		}
	}
	tw.Flush()
}

// chosenSizes tells for which sizes, among powers of two, NCCL chooses a cell.
func chosenSizes(t *tuning.Tuning, coll nccl.Coll) map[nccl.Cell]string {
	const smallest, largest = 3, 34
	text := map[nccl.Cell]string{}
	for from := smallest; from <= largest; {
		at, to := t.Choose(coll, 1<<from, 1).Cell, from
		for to < largest && t.Choose(coll, 1<<(to+1), 1).Cell == at {
			to++
		}
		if text[at] != "" {
			text[at] += ", "
		}
		text[at] += cli.SizeRange(1<<from, 1<<to)
		from = to + 1
	}
	return text
}

func topoExplainCommand(env cli.Env) *cobra.Command {
	var file string
	var release func() (nccl.Version, error)
	cmd := &cobra.Command{
		Use:   "explain FROM TO",
		Short: "Explain how one device reaches another",
		Long: `Explain how one device reaches another: the links on the way and the narrowest of them,
whether NCCL uses peer-to-peer or GPUDirect RDMA, and the rule or variable that decides it.

Devices are named as tunefit topo does: gpu0 by rank, NICs by name, cpu0 by NUMA
number (cpu without one); or as NCCL prints them, GPU/0-18000.`,
		Example: `  tunefit topo explain gpu0 mlx5_2 --topo configs/topo/dgx-h100.xml
  NCCL_P2P_LEVEL=PIX tunefit topo explain gpu0 gpu1 --topo configs/topo/pcie-4gpu.xml`,
		Args: cli.Args(2, 2, "the devices FROM and TO"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var files []string
			if file != "" {
				files = []string{file}
			}
			as, err := release()
			if err != nil {
				return err
			}
			m, err := openMachine(env, files, as, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return m.explain(cmd.OutOrStdout(), args[0], args[1])
		},
	}
	release = topoRelease(env, cmd)
	cmd.Flags().StringVar(&file, "topo", "",
		"topology file in NCCL's XML to look into (default: the topology of this machine)")
	return cmd
}

// decision says whether NCCL uses something, and why.
type decision struct{ what, use, why string }

func (m *topoMachine) explain(w io.Writer, from, to string) error {
	direct, err := topo.Build(m.doc, m.Settings)
	if err != nil {
		return err
	}
	if err := direct.SetPaths(); err != nil {
		return err
	}
	a, errA := m.Find(from)
	b, errB := m.Find(to)
	if err := errors.Join(errA, errB); err != nil {
		return err
	}
	if a == b {
		return fmt.Errorf("%s and %s are the same", from, to)
	}
	da, db := direct.Nodes[a.Type][a.Index], direct.Nodes[b.Type][b.Index]
	var decisions []decision
	switch {
	case a.GPU != nil && b.GPU != nil:
		decisions = m.explainGPUs(a, b, direct, da, db)
	case a.GPU != nil && b.Type == topo.NodeNET:
		decisions = m.explainGDR(a, b, direct.Path(da, db).Type)
	case a.Type == topo.NodeNET && b.GPU != nil:
		decisions = m.explainGDR(b, a, direct.Path(db, da).Type)
	}
	writePath(w, fmt.Sprintf("%s to %s: ", m.Label(a), m.Label(b)), m.System, a, b)
	sameLink := func(x, y *topo.Link) bool { return x.Type == y.Type && x.To.Name() == y.To.Name() }
	if !slices.EqualFunc(direct.Path(da, db).Links, m.Path(a, b).Links, sameLink) {
		writePath(w, "\nThe direct path, which NCCL does not use: ", direct, da, db)
	}
	if len(decisions) > 0 {
		fmt.Fprintln(w)
	}
	for _, d := range decisions {
		fmt.Fprintf(w, "%s: %s\n  %s\n", d.what, d.use, d.why)
	}
	return nil
}

// writePath prints a path link by link and marks the first of its narrowest links.
func writePath(w io.Writer, title string, s *topo.System, from, to *topo.Node) {
	p := s.Path(from, to)
	if p.Type == topo.PathDIS {
		fmt.Fprintf(w, "%snot connected\n", title)
		return
	}
	fmt.Fprintf(w, "%s%s, %d hops, %s GB/s\n", title, p.Type, p.Hops, gbps(p.BW))
	tw := cli.NewList(w)
	narrowest := slices.IndexFunc(p.Links, func(l *topo.Link) bool { return topo.Float32(l.BW) == p.BW })
	for i, l := range p.Links {
		cells := []any{fmt.Sprint("  ", l.Type), gbps(l.BW) + " GB/s", s.Label(from), "to " + s.Label(l.To)}
		if i == narrowest {
			cells = append(cells, "narrowest")
		}
		tw.Row(cells...)
		from = l.To
	}
	tw.Flush()
}

// explainGPUs explains peer-to-peer, on which NCCL decides by the direct path, and the transport.
func (m *topoMachine) explainGPUs(a, b *topo.Node, direct *topo.System, da, db *topo.Node) []decision {
	p2p := direct.CheckP2P(da, db)
	by := "the default level (SYS for one or two GPUs on AMD CPUs, else PXB; NCCL_P2P_LEVEL changes it)"
	if m.P2PLevel.Set {
		by = "the level by NCCL_P2P_LEVEL or NCCL_P2P_DISABLE"
	}
	all := []decision{{"peer-to-peer", "off", farther(direct.Path(da, db).Type, !p2p.OK, p2p.Level, by)}}
	if p2p.OK {
		all[0].use = "on"
	}
	if p2p.Read && p2p.OK {
		all = append(all,
			decision{"reading", "on", "NVLink between GPUs of capability 8.0: reading is better than writing"})
	}
	return append(all, m.transport(a, b))
}

// farther compares a distance with the level that decides.
func farther(distance topo.PathType, is bool, level topo.PathType, by string) string {
	return fmt.Sprintf("%s is%s farther than %s, %s", distance, map[bool]string{false: " not"}[is], level, by)
}

const usesP2P = "P2P"

// transport is what connects two GPUs.
func (m *topoMachine) transport(a, b *topo.Node) decision {
	d := decision{what: "transport", use: "network"}
	switch {
	case m.UsesP2P(a, b):
		d.use, d.why = usesP2P, "peer-to-peer is on"
	case m.UsesSHM(a, b):
		d.use, d.why = "SHM", "shared memory of the host, since peer-to-peer is off"
	case m.NetIsFaster(a, b):
		d.why = "both reach a NIC at more bandwidth than each other (NCCL_NET_DISABLE_INTRA=1 forbids it)"
	case m.SHMDisable:
		d.why = "peer-to-peer is off, and so is shared memory (NCCL_SHM_DISABLE)"
	default:
		d.why = "peer-to-peer is off, and they share no host"
	}
	return d
}

// explainGDR explains GPUDirect RDMA. direct is the type of the path before diversion.
func (m *topoMachine) explainGDR(gpu, net *topo.Node, direct topo.PathType) []decision {
	send, receive := m.CheckGDR(gpu, net, true), m.CheckGDR(gpu, net, false)
	modes := [...]string{topo.GDROff: "off", topo.GDROn: "on",
		topo.GDRPCI: "on, over PCIe and not the chip-to-chip link"}
	all := []decision{
		{"GPUDirect RDMA, sending", modes[send.Mode], m.gdrReason(send, gpu, direct)},
		{"GPUDirect RDMA, receiving", modes[receive.Mode], m.gdrReason(receive, gpu, direct)},
	}
	if send.Near != nil && send.Near != gpu {
		all = append(all,
			decision{"PXN", "on",
				fmt.Sprintf("%s is closer to the port and relays what is sent (NCCL_PXN_DISABLE=1 forbids it)",
					send.Near.Label())})
	}
	return all
}

func (m *topoMachine) gdrReason(gdr topo.GDR, gpu *topo.Node, direct topo.PathType) string {
	switch gdr.Why {
	case topo.NICUnable:
		return "it is not available on the NIC (gdr=\"0\" in the topology: no peer-memory module, no DMA-BUF)"
	case topo.GPUUnable:
		return "it is not available on the GPU (gdr=\"0\" in the topology)"
	case topo.Partitioned:
		return "the GPU has memory partitions (NCCL_NET_GDR_MLOPART=1 allows it)"
	case topo.ReadsOff:
		if m.GDRRead == topo.ToggleOff {
			return "NCCL_NET_GDR_READ=0"
		}
		return "before Ampere NICs read a GPU only if NVLink joins GPUs (NCCL_NET_GDR_READ=1 allows it)"
	}
	distance := gdr.Distance
	if gdr.Near == gpu {
		distance = min(distance, direct) // if it is off, NCCL has diverted the path through the CPU
	}
	by := "the default level (NCCL_NET_GDR_LEVEL changes it)"
	switch {
	case m.GDRLevel.Set:
		by = "the level by NCCL_NET_GDR_LEVEL"
	case m.GDRC2CDisable:
		by = "the default level with NCCL_NET_GDR_C2C=0"
	}
	who := ""
	if gdr.Near != gpu {
		who = gdr.Near.Label() + "'s "
	}
	return who + farther(distance, gdr.Why == topo.TooFar, gdr.Level, by)
}
