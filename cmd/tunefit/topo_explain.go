package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

func topoExplainCommand(env ncclchoice.Env) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "explain FROM TO",
		Short: "Tell how one device reaches another, and why so",
		Long: `Tell how one device reaches another: the links on the way and the narrowest of them.
It also tells whether NCCL uses peer-to-peer or GPUDirect RDMA, and the rule or variable
that decides this.

Devices are named as tunefit topo does: gpu0 by rank, NICs by name, cpu0 by NUMA
number; or as NCCL prints them, GPU/0-18000.`,
		Example: `  tunefit topo explain gpu0 mlx5_2 --topo configs/topo/dgx-h100.xml
  NCCL_P2P_LEVEL=PIX tunefit topo explain gpu0 gpu1 --topo configs/topo/pcie-4gpu.xml`,
		Args: cli.Args(2, 2, "the devices FROM and TO"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var files []string
			if file != "" {
				files = []string{file}
			}
			m, err := openMachine(env, files, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			e, err := m.explain(args[0], args[1])
			if err != nil {
				return err
			}
			return e.write(cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&file, "topo", "",
		"topology file in NCCL's XML to look into (default: the topology of this machine)")
	return cmd
}

// explanation is how one device reaches another.
type explanation struct {
	from, to  string
	path      pathDetail // as NCCL uses it
	direct    pathDetail
	decisions []decision
}

type pathDetail struct {
	pathCell
	links     []linkDetail
	narrowest int // index of the first link with the path's bandwidth; -1 for a path without links
}

type linkDetail struct {
	topo.LinkType
	gbps     float64
	from, to string
}

type decision struct{ what, use, why string }

func (m *topoMachine) explain(from, to string) (*explanation, error) {
	direct, err := topo.Build(m.doc, m.sys.Settings)
	if err != nil {
		return nil, err
	}
	if err := direct.SetPaths(); err != nil {
		return nil, err
	}
	a, errA := m.sys.Find(from)
	b, errB := m.sys.Find(to)
	if err := errors.Join(errA, errB); err != nil {
		return nil, err
	}
	if a == b {
		return nil, fmt.Errorf("%s and %s are the same", from, to)
	}
	e := &explanation{from: m.sys.Label(a), to: m.sys.Label(b), path: m.detail(m.sys, a, b)}
	da, db := direct.Nodes[a.Type][a.Index], direct.Nodes[b.Type][b.Index]
	e.direct = m.detail(direct, da, db)
	switch {
	case a.GPU != nil && b.GPU != nil:
		e.decisions, err = m.explainGPUs(a, b, direct, da, db)
	case a.GPU != nil && b.Type == topo.NodeNET:
		e.decisions, err = m.explainGDR(a, b, direct.Path(da, db).Type)
	case a.Type == topo.NodeNET && b.GPU != nil:
		e.decisions, err = m.explainGDR(b, a, direct.Path(db, da).Type)
	}
	return e, err
}

func (m *topoMachine) detail(s *topo.System, from, to *topo.Node) pathDetail {
	p := s.Path(from, to)
	d := pathDetail{pathCell: pathCell{p.Type, p.Hops, topo.Float32(p.BW)}, narrowest: -1}
	at := from
	for _, l := range p.Links {
		if d.narrowest < 0 && l.BW == p.BW {
			d.narrowest = len(d.links)
		}
		d.links = append(d.links, linkDetail{l.Type, float64(l.BW), s.Label(at), s.Label(l.To)})
		at = l.To
	}
	return d
}

// explainGPUs tells about peer-to-peer. NCCL decides on it by the direct path.
func (m *topoMachine) explainGPUs(a, b *topo.Node, direct *topo.System, da, db *topo.Node) ([]decision, error) {
	p2p, err := direct.CheckP2P(da, db)
	if err != nil {
		return nil, err
	}
	distance := direct.Path(da, db).Type
	d := decision{what: "peer-to-peer", use: "off"}
	if p2p.OK {
		d.use, d.why = "on", fmt.Sprintf("%s is not farther than %s, %s", distance, p2p.Level, m.p2pLevelBy())
	} else {
		d.why = fmt.Sprintf("%s is farther than %s, %s", distance, p2p.Level, m.p2pLevelBy())
	}
	all := []decision{d}
	if p2p.Read && p2p.OK {
		all = append(all,
			decision{"reading", "on", "NVLink between GPUs of capability 8.0: reading is better than writing"})
	}
	uses, err := m.sys.UsesP2P(a, b)
	if err != nil {
		return nil, err
	}
	transport := decision{what: "transport"}
	switch {
	case uses:
		transport.use, transport.why = "P2P", "peer-to-peer is on"
	case m.sys.UsesSHM(a, b):
		transport.use, transport.why = "SHM", "shared memory of the host, since peer-to-peer is off"
	default:
		transport.use = "network"
		switch {
		case m.sys.NetIsFaster(a, b):
			transport.why = "both reach a NIC at more bandwidth than each other (NCCL_NET_DISABLE_INTRA=1 forbids it)"
		case m.sys.SHMDisable:
			transport.why = "peer-to-peer is off, and so is shared memory (NCCL_SHM_DISABLE)"
		default:
			transport.why = "peer-to-peer is off, and they share no host"
		}
	}
	return append(all, transport), nil
}

func (m *topoMachine) p2pLevelBy() string {
	if m.sys.P2PLevel.Set {
		return "the level by NCCL_P2P_LEVEL or NCCL_P2P_DISABLE"
	}
	return "the default level (SYS for one or two GPUs on AMD CPUs, else PXB; NCCL_P2P_LEVEL changes it)"
}

// explainGDR tells about GPUDirect RDMA. direct is the type of the path before diversion.
func (m *topoMachine) explainGDR(gpu, net *topo.Node, direct topo.PathType) ([]decision, error) {
	var all []decision
	for _, send := range []bool{true, false} {
		gdr, err := m.sys.CheckGDR(gpu, net, send)
		if err != nil {
			return nil, err
		}
		d := decision{what: "GPUDirect RDMA, receiving", use: "off"}
		if send {
			d.what = "GPUDirect RDMA, sending"
		}
		switch gdr.Mode {
		case topo.GDROn:
			d.use = "on"
		case topo.GDRPCI:
			d.use = "on, over PCIe and not the chip-to-chip link"
		}
		d.why = m.gdrReason(gdr, gpu, direct)
		all = append(all, d)
	}
	if gdr, err := m.sys.CheckGDR(gpu, net, true); err == nil && gdr.Near != nil && gdr.Near != gpu {
		all = append(all,
			decision{"PXN", "on",
				fmt.Sprintf("%s is closer to the port and relays what is sent (NCCL_PXN_DISABLE=1 forbids it)",
					gdr.Near.Label())})
	}
	return all, nil
}

func (m *topoMachine) gdrReason(gdr topo.GDR, gpu *topo.Node, direct topo.PathType) string {
	switch gdr.Why {
	case topo.NICUnable:
		return "the NIC does not offer it (gdr=\"0\" in the topology: no peer-memory module, no DMA-BUF)"
	case topo.GPUUnable:
		return "the GPU does not offer it (gdr=\"0\" in the topology)"
	case topo.Partitioned:
		return "the GPU has memory partitions (NCCL_NET_GDR_MLOPART=1 allows it)"
	case topo.ReadsOff:
		if m.sys.GDRRead == topo.ToggleOff {
			return "NCCL_NET_GDR_READ=0"
		}
		return "before Ampere NICs read a GPU only if NVLink joins GPUs (NCCL_NET_GDR_READ=1 allows it)"
	}
	distance := gdr.Distance
	if gdr.Near == gpu {
		distance = min(distance, direct) // through the CPU only because it is off
	}
	by := "the default level (NCCL_NET_GDR_LEVEL changes it)"
	switch {
	case m.sys.GDRLevel.Set:
		by = "the level by NCCL_NET_GDR_LEVEL"
	case m.sys.GDRC2CDisable:
		by = "the default level with NCCL_NET_GDR_C2C=0"
	}
	who := ""
	if gdr.Near != gpu {
		who = gdr.Near.Label() + "'s "
	}
	if gdr.Why == topo.TooFar {
		return fmt.Sprintf("%s%s is farther than %s, %s", who, distance, gdr.Level, by)
	}
	return fmt.Sprintf("%s%s is not farther than %s, %s", who, distance, gdr.Level, by)
}

func (e *explanation) write(w io.Writer) error {
	e.path.write(w, fmt.Sprintf("%s to %s: ", e.from, e.to))
	if !slices.Equal(e.direct.links, e.path.links) {
		e.direct.write(w, "\nThe direct path, which NCCL does not use: ")
	}
	if len(e.decisions) > 0 {
		fmt.Fprintln(w)
	}
	for _, d := range e.decisions {
		fmt.Fprintf(w, "%s: %s\n  %s\n", d.what, d.use, d.why)
	}
	return nil
}

func (d pathDetail) write(w io.Writer, title string) {
	if d.Type == topo.PathDIS {
		fmt.Fprintf(w, "%snot connected\n", title)
		return
	}
	fmt.Fprintf(w, "%s%s, %d hops, %s GB/s\n", title, d.Type, d.Hops, gbps(float64(d.GBps)))
	tw := cli.NewTable(w)
	for i, l := range d.links {
		cells := []any{fmt.Sprint("  ", l.LinkType), gbps(l.gbps) + " GB/s", l.from, "to " + l.to}
		if i == d.narrowest {
			cells = append(cells, "narrowest")
		}
		tw.Row(cells...)
	}
	tw.Flush()
}
