package command

import (
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
)

func topoPathsCommand(env ncclchoice.Env) *cobra.Command {
	var stage string
	cmd := reportCommand(env, &cobra.Command{
		Use:   "paths [SYSTEM.xml]",
		Short: "Print all nodes and paths, before or after NCCL's diversions",
		Long: `Print all nodes of the graph and the best path between each two, at one of these stages:

  raw     the best paths, before any diversion
  nocomm  diverted through CPUs and GPUs, without a communicator
  single  as when a communicator of all GPUs is created: computed, trimmed, computed again`,
		Example: `  tunefit topo paths configs/topo/dgx-h100.xml --stage single --json`,
	}, "print JSON, in NCCL's order of nodes and links",
		func(doc *topo.Document, set topo.Settings) (*topo.PathsReport, error) {
			if !slices.Contains([]topo.Stage{topo.StageRaw, topo.StageNoComm, topo.StageSingle}, topo.Stage(stage)) {
				return nil, cli.Usagef("--stage %q: not one of raw, nocomm, single", stage)
			}
			return topo.Paths(doc, set, topo.Stage(stage))
		}, writePaths)
	cmd.Flags().StringVar(&stage, "stage", string(topo.StageSingle), "raw, nocomm or single")
	return cmd
}

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
					tw.Row(n.Name, byType[t.String()][i], p.Type, p.Hops, gbps(float64(p.BW)))
				}
			}
		}
	}
	return tw.Flush()
}
