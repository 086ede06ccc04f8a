package command

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/commspec"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/channels"
	"github.com/nccl-tuner-go/nccl-tuner-go/topo/tuning"
)

func topoTuningCommand(env ncclchoice.Env) *cobra.Command {
	var nodes []int
	var asJSON, collNet bool
	var named string
	cmd := &cobra.Command{
		Use:   "tuning [SYSTEM.xml]",
		Short: "Print NCCL's estimates, and what it would choose",
		Long: `Print the estimates of a release of NCCL for communicators over hosts like this one:
latency and bandwidth of each algorithm and protocol, and the sizes that NCCL chooses
them for. NCCL_* variables count as they do in NCCL. No measurement is involved.

tunefit show --tuning reads the JSON.`,
		Example: `  tunefit topo tuning configs/topo/dgx-h100.xml --nodes 1,4
  tunefit topo tuning configs/topo/dgx-h100.xml --json > dgx-h100.json`,
		Args: cli.Args(0, 1, "a topology file, or none for this machine"),
		RunE: func(cmd *cobra.Command, args []string) error {
			version, notes, err := env.WhichNCCL(named)
			if err != nil {
				return err
			}
			cli.Notes(cmd.ErrOrStderr(), append(ncclchoice.UncountedVariables(), notes...)...)
			if err := checkHosts(nodes); err != nil {
				return err
			}
			doc, _, err := document(env, args)
			if err != nil {
				return err
			}
			opt, err := ncclchoice.TuneOptions(version)
			if err != nil {
				return err
			}
			opt.CollNet = collNet
			comms, err := channels.Tune(doc, opt, nodes...)
			if err != nil {
				return err
			}
			if asJSON {
				set := &tuning.Set{NCCL: opt.NCCL}
				for _, c := range comms {
					set.Tunings = append(set.Tunings, c.Tuning)
				}
				return cli.WriteJSON(cmd.OutOrStdout(), set)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "NCCL %s\n\n", opt.NCCL)
			return writeTuning(cmd.OutOrStdout(), comms)
		},
	}
	cmd.Flags().StringVar(&named, "nccl", "",
		"release of NCCL, as 2.28.9 (default: the one that is installed, else "+nccl.Newest.String()+")")
	cmd.Flags().IntSliceVar(&nodes, "nodes", []int{1, 2, 4, 8, 16, 64}, "numbers of hosts")
	cmd.Flags().BoolVar(&collNet, "collnet", false, "the network reduces (SHARP), and NCCL is told to use that")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func checkHosts(nodes []int) error {
	const most = 1 << 20
	for _, n := range nodes {
		if n < 1 || n > most {
			return cli.Usagef("--nodes %d: a communicator has 1 to %d hosts", n, most)
		}
	}
	if len(nodes) == 0 {
		return cli.Usagef("--nodes is empty")
	}
	return nil
}

func writeTuning(w io.Writer, comms []*channels.CommTuning) error {
	tw := cli.NewTable(w)
	tw.Row("comm", "channels", "collective", "algorithm", "protocol", "latency us", "GB/s", "chosen for")
	for _, c := range comms {
		t := c.Tuning
		for _, coll := range slices.Backward(nccl.AllColls()) {
			chosen := chosenSizes(t, coll)
			for a, p := range nccl.Cells {
				if t.Bandwidths[coll][a][p] == 0 || t.Table(coll, 1, 1)[a][p] < 0 {
					continue
				}
				n, _ := t.ChannelsAndWarps(a, p, 1<<40)
				tw.Row(t.Comm, n, coll, a, p,
					gbps(float64(t.Latencies[coll][a][p])), gbps(float64(t.Bandwidths[coll][a][p])),
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
		text[at] += commspec.SizeRange(1<<from, 1<<to)
		from = to + 1
	}
	return text
}
