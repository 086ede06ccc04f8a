package command

import (
	"cmp"
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
			m, err := openMachine(env, files, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return m.explain(cmd.OutOrStdout(), args[0], args[1])
		},
	}
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
		decisions, err = m.explainGPUs(a, b, direct, da, db)
	case a.GPU != nil && b.Type == topo.NodeNET:
		decisions, err = m.explainGDR(a, b, direct.Path(da, db).Type)
	case a.Type == topo.NodeNET && b.GPU != nil:
		decisions, err = m.explainGDR(b, a, direct.Path(db, da).Type)
	}
	if err != nil {
		return err
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
	tw := cli.NewTable(w)
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
func (m *topoMachine) explainGPUs(a, b *topo.Node, direct *topo.System, da, db *topo.Node) ([]decision, error) {
	p2p, err := direct.CheckP2P(da, db)
	if err != nil {
		return nil, err
	}
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
	transport, err := m.transport(a, b)
	return append(all, transport), err
}

// farther compares a distance with the level that decides.
func farther(distance topo.PathType, is bool, level topo.PathType, by string) string {
	return fmt.Sprintf("%s is%s farther than %s, %s", distance, map[bool]string{false: " not"}[is], level, by)
}

const usesP2P = "P2P"

// transport is what connects two GPUs.
func (m *topoMachine) transport(a, b *topo.Node) (decision, error) {
	d := decision{what: "transport", use: "network"}
	uses, err := m.UsesP2P(a, b)
	switch {
	case uses:
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
	return d, err
}

// explainGDR explains GPUDirect RDMA. direct is the type of the path before diversion.
func (m *topoMachine) explainGDR(gpu, net *topo.Node, direct topo.PathType) ([]decision, error) {
	send, receive, err := m.gdrBothWays(gpu, net)
	if err != nil {
		return nil, err
	}
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
	return all, nil
}

// gdrBothWays decides on GPUDirect RDMA for both directions.
func (m *topoMachine) gdrBothWays(gpu, net *topo.Node) (send, receive topo.GDR, err error) {
	send, errSend := m.CheckGDR(gpu, net, true)
	receive, errReceive := m.CheckGDR(gpu, net, false)
	return send, receive, cmp.Or(errSend, errReceive)
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
