package command

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

// topoOverview is what `tunefit topo` shows.
type topoOverview struct {
	machine *topoMachine

	Source      string        `json:"source"`
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
	o := &topoOverview{Source: m.source.String(), Fingerprint: string(m.Fingerprint())}
	for _, n := range m.targets() {
		o.Columns = append(o.Columns, m.Label(n))
	}
	for _, g := range m.Nodes[topo.NodeGPU] {
		e := gpuEntry{Name: g.Label(), GPU: g.GPU, BusID: g.GPU.Device.ID.BusID()}
		cpu, err := m.LocalCPU(g)
		if err != nil {
			return nil, err
		}
		e.CPU = m.Label(cpu)
		if len(m.Nodes[topo.NodeNET]) > 0 {
			net, err := m.LocalNet(g, 0)
			if err != nil {
				return nil, err
			}
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
	var err error
	o.Summary, err = m.Summarize()
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

func (o *topoOverview) write(w io.Writer) error {
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
	fmt.Fprintln(w, "\nType and GB/s of one direction:")
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
			gdr = "offered"
		}
		tw.Row(n.Name, n.Dev, cmp.Or(n.BusID, "-"), n.Port, gbps(n.BW), n.Latency, gdr, cmp.Or(n.GPU, "-"))
	}
	tw.Flush()
	s := o.Summary
	fmt.Fprintf(w, "\n%s\n", s)
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
	return tw.Flush()
}

func gbps[F ~float32 | ~float64](v F) string { return strconv.FormatFloat(float64(v), 'g', 4, 64) }

// writePaths prints a line per path. Where its nodes are listed, they end with the target.
func writePaths(w io.Writer, r *topo.PathsReport) error {
	tw := cli.NewTable(w)
	tw.Row("from", "to", "type", "hops", "GB/s")
	byType := map[string][]string{}
	for _, n := range r.Nodes {
		byType[n.Type] = append(byType[n.Type], n.Name)
	}
	for _, n := range r.Nodes {
		for _, t := range []topo.NodeType{topo.NodeGPU, topo.NodeNET, topo.NodeCPU, topo.NodeNVS} {
			for i, p := range r.Paths[n.Name][t.String()] {
				if p.Type != topo.PathDIS && p.Hops > 0 {
					tw.Row(n.Name, byType[t.String()][i], p.Type, p.Hops, gbps(p.BW))
				}
			}
		}
	}
	return tw.Flush()
}

// link is what two devices use.
type link struct {
	From string        `json:"from"`
	To   string        `json:"to"`
	Path topo.PathType `json:"path"`
	GBps topo.Float32  `json:"gbps"`
	Uses string        `json:"uses"`
}

func (m *topoMachine) links() (all []link, err error) {
	for _, gpu := range m.Nodes[topo.NodeGPU] {
		for _, to := range m.targets() {
			path := m.Path(gpu, to)
			if gpu == to || path.Type == topo.PathDIS {
				continue
			}
			l := link{From: gpu.Label(), To: to.Name(), Path: path.Type, GBps: path.BW}
			if to.GPU != nil {
				l.To = to.Label()
			}
			if l.Uses, err = m.uses(gpu, to); err != nil {
				return nil, fmt.Errorf("%s: %w", m.doc.File, err)
			}
			all = append(all, l)
		}
	}
	return all, nil
}

// uses says how a GPU reaches another, or for which directions a port has GPUDirect RDMA.
func (m *topoMachine) uses(gpu, to *topo.Node) (string, error) {
	if to.GPU == nil {
		send, receive, err := m.gdrBothWays(gpu, to)
		return map[[2]bool]string{
			{true, true}: "GPUDirect RDMA", {false, true}: "GPUDirect RDMA for receiving",
			{true, false}: "GPUDirect RDMA for sending", {}: "no GPUDirect RDMA",
		}[[...]bool{send.Mode != topo.GDROff, receive.Mode != topo.GDROff}], err
	}
	t, err := m.transport(gpu, to)
	if err != nil || t.use != usesP2P {
		return t.use, err
	}
	p2p, err := m.CheckP2P(gpu, to)
	if p2p.Via >= 0 {
		t.use += fmt.Sprintf(" via gpu%d", p2p.Via)
	}
	if p2p.Read {
		t.use += ", reading"
	}
	return t.use, err
}

func writeLinks(w io.Writer, all []link) error {
	tw := cli.NewTable(w)
	tw.Row("from", "to", "path", "GB/s", "uses")
	for _, l := range all {
		tw.Row(l.From, l.To, l.Path, gbps(l.GBps), l.Uses)
	}
	return tw.Flush()
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

func findGraphs(doc *topo.Document) (map[string]*channels.Found, error) {
	all := map[string]*channels.Found{}
	for _, c := range communicators {
		opt := channels.TuneOptions{Settings: topo.SettingsFromEnv(os.Getenv), CollNet: c.collNet}
		found, err := channels.Search(doc, opt, c.hosts)
		if err != nil {
			return nil, err
		}
		all[c.key] = found
	}
	return all, nil
}

func writeGraphs(w io.Writer, all map[string]*channels.Found) error {
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
	return tw.Flush()
}

func writeTuning(w io.Writer, set *tuning.Set) error {
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
	return tw.Flush()
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
