package command

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
	}, "print JSON, with the order of GPUs and NICs of each channel",
		findGraphs, writeGraphs)
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

func findGraphs(doc *topo.Document, set topo.Settings) (map[string]*channels.Found, error) {
	all := map[string]*channels.Found{}
	for _, c := range communicators {
		opt := channels.TuneOptions{Settings: set, CollNet: c.collNet}
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
				over, toNIC = gbps(float64(g.graph.BWInter)), g.graph.TypeInter.String()
			}
			tw.Row(c.name, g.name, g.graph.NChannels, gbps(float64(g.graph.BWIntra)),
				over, g.graph.TypeIntra, toNIC, fmt.Sprint(g.graph.Intra[0]))
		}
	}
	return tw.Flush()
}
