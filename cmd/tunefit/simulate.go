package main

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nccl-tuner-go/nccl-tuner-go/bench"
	"github.com/nccl-tuner-go/nccl-tuner-go/bench/simulate"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/cli"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/commspec"
	"github.com/nccl-tuner-go/nccl-tuner-go/cmd/tunefit/internal/ncclchoice"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/nccl"
	"github.com/nccl-tuner-go/nccl-tuner-go/internal/plural"
)

type simulateFlags struct {
	ncclchoice.Flags
	grid     commspec.Flags
	nodes    []int
	perNode  int
	channels []int
	reps     int
	seed     uint64
	noise    float64
	output   string
	force    bool
}

func simulateCommand(env ncclchoice.Env) *cobra.Command {
	f := simulateFlags{Flags: ncclchoice.Flags{Env: env}}
	cmd := &cobra.Command{
		Use:    "simulate",
		Hidden: true, // to try the others out
		Short:  "Make up a sweep of a cluster that is not there",
		Long: `Make up a sweep for trying out commands that learn from sweeps. It has the measurements
that nccl-tests would print on a cluster that does not exist.

Times begin with NCCL's estimates and add what real clusters show: limits per channel,
latency that grows with channels, contention for NICs, steps between sizes, and noise
with outliers. The sweep has NCCL's choice, too: near the best at many sizes, and up
to about twice too slow at some. The seed picks the cluster and the noise: equal
commands give equal files, on every machine.

Every row says that it is simulated: its source begins with "simulated:". A policy
learnt from it is of no use on a real cluster.`,
		Example: `  tunefit simulate --nodes 1,2 -o sweep.csv
  tunefit simulate --nodes 4 --coll allreduce --sizes 1M-64M --channels 8,16 --seed 7 > sweep.csv`,
		Args: cli.FlagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	f.Register(cmd)
	flags.Lookup("nccl").Usage = "release of NCCL, as 2.28.9 (default: " + nccl.Reference.String() + ")"
	flags.IntSliceVar(&f.nodes, "nodes", []int{1}, "numbers of nodes, as 1,2")
	flags.IntVar(&f.perNode, "ranks-per-node", 8, "ranks on each node")
	flags.StringSliceVar(&f.grid.Colls, "coll", []string{"allreduce", "allgather", "reducescatter"},
		"collectives to sweep, as allreduce,allgather")
	flags.StringVar(&f.grid.Sizes, "sizes", "1K-1G",
		"sizes in bytes: a list as 64K,1M, or a range as 1K-1G, swept at every doubling")
	flags.IntSliceVar(&f.channels, "channels", []int{1, 2, 4, 8, 16, 24, 32},
		"channel counts to force; those that the communicator does not have are left out")
	flags.IntVar(&f.reps, "reps", 2, "repetitions of every measurement")
	flags.Uint64Var(&f.seed, "seed", 1, "picks the cluster and the noise")
	flags.Float64Var(&f.noise, "noise", .007, "typical deviation of a measurement, as a part; 0: none")
	flags.StringVarP(&f.output, "output", "o", "", "file to write (default: standard output)")
	flags.BoolVar(&f.force, "force", false, "overwrite the file of -o")
	return cmd
}

func (f *simulateFlags) run(cmd *cobra.Command) error {
	asked, err := f.options()
	if err != nil {
		return err
	}
	if f.output == cli.StandardName {
		f.output = ""
	}
	if err := cli.MayWrite(f.output, f.force, f.Tuning, f.Topo); err != nil {
		return err
	}
	if f.Tuning == "" { // a simulation is the same everywhere, whatever is installed
		f.NCCL = cmp.Or(f.NCCL, nccl.Reference.String())
	}
	costs, err := f.Read()
	if err != nil {
		return err
	}
	if costs.Machine != nil {
		if err := costs.Derive(f.nodes...); err != nil {
			return err
		}
	}
	if f.Tuning != "" {
		asked.System = strings.TrimSuffix(filepath.Base(f.Tuning), filepath.Ext(f.Tuning))
	}
	var all []bench.Sample
	for _, nodes := range f.nodes {
		o := asked
		if o.Tuning = costs.Set.For(nccl.Comm{Nodes: nodes, Ranks: nodes * f.perNode}); o.Tuning == nil {
			return fmt.Errorf("there are no estimates of NCCL for %dx%d (--topo or --tuning name another machine)",
				nodes, f.perNode)
		}
		all = append(all, simulate.Sweep(o)...)
	}
	err = cli.WriteOrPrint(cmd.OutOrStdout(), f.output, f.force, func(w io.Writer) error {
		return bench.WriteTidy(w, all)
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s, all simulated\n", plural.Of(len(all), "row"))
	return nil
}

// options checks the flags that do not depend on NCCL's estimates.
func (f *simulateFlags) options() (simulate.Options, error) {
	o := simulate.Options{System: "hgx-h100", Seed: f.seed, Repetitions: f.reps, Noise: f.noise}
	colls, err := f.grid.ParseColls()
	if err != nil {
		return o, err
	}
	for _, c := range colls {
		if !slices.Contains(o.Colls, c) {
			o.Colls = append(o.Colls, c)
		}
	}
	if o.Sizes, _, err = f.grid.ParseSizes(); err != nil {
		return o, err
	}
	if n := o.Sizes[len(o.Sizes)-1]; o.Sizes[0] < 1 || n > simulate.MaxBytes {
		return o, cli.Usagef("--sizes %s: not all from 1 to %s", f.grid.Sizes, nccl.FormatBytes(simulate.MaxBytes))
	}
	if f.perNode < 1 || f.perNode > 1<<16 {
		return o, cli.Usagef("--ranks-per-node %d (allowed: 1 or more)", f.perNode)
	}
	f.nodes = sortedOnce(f.nodes)
	for _, n := range f.nodes {
		if n < 1 || n > 1<<16 || n*f.perNode < 2 {
			return o, cli.Usagef("--nodes %d (allowed: 1 or more, and 2 ranks or more in all)", n)
		}
	}
	o.Channels = sortedOnce(f.channels)
	for _, n := range o.Channels {
		if n < 1 || n > nccl.MaxChannels {
			return o, cli.Usagef("--channels %d (allowed: 1 to 64)", n)
		}
	}
	if len(f.nodes) == 0 || len(o.Channels) == 0 {
		return o, cli.Usagef("--nodes and --channels need a number each")
	}
	if o.Repetitions < 1 || o.Repetitions > simulate.MaxRepetitions {
		return o, cli.Usagef("--reps %d (allowed: 1 to %d)", o.Repetitions, simulate.MaxRepetitions)
	}
	if !(o.Noise >= 0 && o.Noise <= simulate.MaxNoise) {
		return o, cli.Usagef("--noise %v (allowed: 0 to %v)", o.Noise, simulate.MaxNoise)
	}
	return o, nil
}

func sortedOnce(numbers []int) []int {
	return slices.Compact(slices.Sorted(slices.Values(numbers)))
}
