package main

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
  NCCL_NET_GDR_LEVEL=PIX tunefit topo links configs/topo/dgx-h100.xml`,
	}, writeLinks)
}

func writeLinks(w io.Writer, doc *topo.Document, set topo.Settings) error {
	r, err := topo.Links(doc, ncclchoice.BuildOptions(), set)
	if err != nil {
		return err
	}
	tw := cli.NewTable(w)
	tw.Row("from", "to", "path", "GB/s", "uses")
	for i, a := range r.Ranks {
		for j, b := range r.Ranks {
			if i == j {
				continue
			}
			uses := "network"
			switch {
			case r.TransportP2P[i][j] != 0:
				uses = "P2P"
				if via := r.Intermediate[i][j]; via >= 0 {
					uses = fmt.Sprintf("P2P via gpu%d", via)
				}
				if r.Read[i][j] != 0 {
					uses += ", reading"
				}
			case r.TransportSHM[i][j] != 0:
				uses = "SHM"
			}
			writeLink(tw, fmt.Sprintf("gpu%d", a), fmt.Sprintf("gpu%d", b), r.GPUGPU[i][j], uses)
		}
		for j, name := range r.Nets {
			uses := "no GPUDirect RDMA"
			send, recv := r.GDRSend[i][j] != 0, r.GDRRecv[i][j] != 0
			switch {
			case send && recv:
				uses = "GPUDirect RDMA"
			case recv:
				uses = "GPUDirect RDMA for receiving"
			case send:
				uses = "GPUDirect RDMA for sending"
			}
			writeLink(tw, fmt.Sprintf("gpu%d", a), name, r.GPUNet[i][j], uses)
		}
	}
	return tw.Flush()
}

func writeLink(tw *cli.Table, from, to string, p *topo.PathEntry, uses string) {
	if p == nil || p.Type == topo.PathDIS {
		return
	}
	tw.Row(from, to, p.Type, gbps(float64(p.BW)), uses)
}
