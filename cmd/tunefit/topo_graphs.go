package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
)

func topoGraphsCommand(env ncclchoice.Env) *cobra.Command {
	return reportCommand(env, &cobra.Command{
		Use:   "graphs [SYSTEM.xml]",
		Short: "Print the channels that NCCL would find",
		Long: `Print the channels that NCCL's search would find for rings, trees, NVLS and CollNet, on
this system alone and as one of several alike.`,
		Example: `  tunefit topo graphs configs/topo/dgx-h100.xml`,
	}, writeGraphs)
}

func writeGraphs(w io.Writer, doc *topo.Document, set topo.Settings) error {
	r, err := channels.ReportGraphs(doc, ncclchoice.BuildOptions(), set)
	if err != nil {
		return err
	}
	tw := cli.NewTable(w)
	tw.Row("communicator", "graph", "channels", "GB/s per channel", "over network",
		"GPU to GPU", "GPU to NIC", "order of channel 0")
	for _, c := range []struct{ key, name string }{
		{"single", "this system"}, {"multi", "several"}, {"single_collnet", "this system, CollNet"}, {"multi_collnet", "several, CollNet"},
	} {
		one := r[c.key]
		for _, g := range []struct {
			name  string
			graph *channels.Graph
		}{{"ring", one.Ring}, {"tree", one.Tree}, {"nvls", one.NVLS}, {"collnet chain", one.CollNetChain}, {"collnet direct", one.CollNetDirect}} {
			if g.graph == nil || g.graph.NChannels == 0 {
				continue
			}
			over, toNIC := "-", "-"
			if one.Inter != 0 {
				over, toNIC = gbps(float64(g.graph.BWInter)), g.graph.TypeInter.String()
			}
			tw.Row(c.name, g.name, g.graph.NChannels, gbps(float64(g.graph.BWIntra)),
				over, g.graph.TypeIntra, toNIC, fmt.Sprint(g.graph.Intra[0]))
		}
	}
	return tw.Flush()
}
