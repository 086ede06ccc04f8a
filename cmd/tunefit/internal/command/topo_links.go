package command

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

func topoLinksCommand(env ncclchoice.Env) *cobra.Command {
	return reportCommand(env, &cobra.Command{
		Use:   "links [SYSTEM.xml]",
		Short: "Print what each pair uses: P2P, shared memory, network, GPUDirect RDMA",
		Long: `Print for each pair of GPUs whether NCCL uses peer-to-peer, shared memory or the
network. Print for each GPU and NIC whether it uses GPUDirect RDMA. NCCL_P2P_LEVEL,
NCCL_P2P_DISABLE, NCCL_NET_GDR_LEVEL, NCCL_NET_GDR_READ, NCCL_NET_GDR_C2C,
NCCL_PXN_DISABLE, NCCL_PXN_C2C, NCCL_NVB_DISABLE, NCCL_SHM_DISABLE and
NCCL_NET_DISABLE_INTRA count as in NCCL.`,
		Example: `  tunefit topo links configs/topo/dgx-h100.xml
  NCCL_NET_GDR_LEVEL=PIX tunefit topo links configs/topo/dgx-h100.xml --json`,
	}, "print JSON: a list of pairs", links, writeLinks)
}

// link is what two devices use.
type link struct {
	From string        `json:"from"`
	To   string        `json:"to"`
	Path topo.PathType `json:"path"`
	GBps topo.Float32  `json:"gbps"`
	Uses string        `json:"uses"`
}

func links(doc *topo.Document, set topo.Settings) ([]link, error) {
	s, err := withPaths(doc, set)
	if err != nil {
		return nil, err
	}
	var all []link
	for _, gpu := range s.Nodes[topo.NodeGPU] {
		for _, t := range []topo.NodeType{topo.NodeGPU, topo.NodeNET} {
			for _, to := range s.Nodes[t] {
				path := s.Path(gpu, to)
				if gpu == to || path.Type == topo.PathDIS {
					continue
				}
				l := link{From: gpu.Label(), To: to.Name(), Path: path.Type, GBps: topo.Float32(path.BW)}
				if t == topo.NodeGPU {
					l.To = to.Label()
					l.Uses, err = transport(s, gpu, to)
				} else {
					l.Uses, err = directRDMA(s, gpu, to)
				}
				if err != nil {
					return nil, fmt.Errorf("%s: %w", doc.File, err)
				}
				all = append(all, l)
			}
		}
	}
	return all, nil
}

// transport names what connects two GPUs.
func transport(s *topo.System, a, b *topo.Node) (string, error) {
	used, err := s.UsesP2P(a, b)
	if err != nil {
		return "", err
	}
	if !used {
		if s.UsesSHM(a, b) {
			return "SHM", nil
		}
		return "network", nil
	}
	p2p, err := s.CheckP2P(a, b)
	uses := "P2P"
	if p2p.Via >= 0 {
		uses = fmt.Sprintf("P2P via gpu%d", p2p.Via)
	}
	if p2p.Read {
		uses += ", reading"
	}
	return uses, err
}

// directRDMA tells for which directions GPUDirect RDMA is on.
func directRDMA(s *topo.System, gpu, net *topo.Node) (string, error) {
	recv, err := s.CheckGDR(gpu, net, false)
	if err != nil {
		return "", err
	}
	send, err := s.CheckGDR(gpu, net, true)
	switch {
	case send.Mode != topo.GDROff && recv.Mode != topo.GDROff:
		return "GPUDirect RDMA", err
	case recv.Mode != topo.GDROff:
		return "GPUDirect RDMA for receiving", err
	case send.Mode != topo.GDROff:
		return "GPUDirect RDMA for sending", err
	}
	return "no GPUDirect RDMA", err
}

func writeLinks(w io.Writer, all []link) error {
	tw := cli.NewTable(w)
	tw.Row("from", "to", "path", "GB/s", "uses")
	for _, l := range all {
		tw.Row(l.From, l.To, l.Path, gbps(float64(l.GBps)), l.Uses)
	}
	return tw.Flush()
}
